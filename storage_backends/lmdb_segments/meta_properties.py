"""`meta.properties` as Kafka's format step writes it: whose directory it is, for Kafka's tools to read.

`kafka-metadata-quorum add-controller` takes the new voter's ids from there, `kafka-storage info` shows them. This
software reads none of it: the same stands in the store's own properties.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Final
from uuid import UUID

FILE: Final = "meta.properties"
VERSION: Final = 1


def meta_properties(properties: Mapping[str, str]) -> bytes | None:
    """The file's content; None while the cluster, the node or the directory is not known."""
    cluster_id, node_id, directory_id = map(properties.get, ("cluster.id", "node.id", "directory.id"))
    if not (cluster_id and node_id and directory_id):
        return None
    directory = urlsafe_b64encode(UUID(directory_id).bytes).decode().rstrip("=")
    lines = (f"cluster.id={cluster_id}", f"directory.id={directory}", f"node.id={node_id}", f"version={VERSION}")
    return "".join(f"{line}\n" for line in lines).encode()

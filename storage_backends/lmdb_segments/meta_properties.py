"""`meta.properties`, as `kafka-storage format` writes it: the ids of cluster, node and directory, for Kafka's tools.
`kafka-metadata-quorum add-controller` takes the new voter's ids from there, `kafka-storage info` prints them. Odradek
does not read it: the store's own properties contain the same.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Final
from uuid import UUID

FILE: Final = "meta.properties"
VERSION: Final = 1


def meta_properties(properties: Mapping[str, str]) -> bytes | None:
    """Return the file's content; None if the id of the cluster, the node or the directory is not set."""
    cluster_id, node_id, directory_id = map(properties.get, ("cluster.id", "node.id", "directory.id"))
    if not (cluster_id and node_id and directory_id):
        return None
    directory = urlsafe_b64encode(UUID(directory_id).bytes).decode().rstrip("=")
    lines = (f"cluster.id={cluster_id}", f"directory.id={directory}", f"node.id={node_id}", f"version={VERSION}")
    return "".join(f"{line}\n" for line in lines).encode()

"""Advice to users about a damaged file of a store, which depends on the topic that the file belongs to."""

from pathlib import Path
from typing import Final

from odradek.storage_backends.interface import REPLACE_NODE

METADATA_TOPIC: Final = "__cluster_metadata"

_LOST: Final = {
    "__consumer_offsets": "the groups kept in it lose their committed offsets",
    "__transaction_state": "the transactional ids kept in it are forgotten, and a transaction of theirs that is open "
    "has to be ended with `odradek transactions abort`",
}
_LOST_RECORDS: Final = "its records are lost, and consumers go on as their auto.offset.reset says"


def what_to_do(path: Path) -> str:
    """Return the advice for a damaged `path`: a partition's directory, or a file in one."""
    directory = path if path.suffix != ".lmdb" and "-" in path.name else path.parent
    topic = directory.name.rpartition(".")[0].rpartition("-")[0]
    if topic == METADATA_TOPIC:
        return recover_advice(directory.parent)
    return (
        "in a cluster of one node, restore it from a backup; or stop the broker and move the directory "
        f"{directory} out of the data directory: {_begins_again(topic)}"
    )


def after_removal(directory: Path, topic: str) -> str:
    """Return the advice for the directory of a partition of `topic` that was removed while the broker ran."""
    if topic == METADATA_TOPIC:
        return recover_advice(directory.parent)
    return f"in a cluster of one node, restore it from a backup; or start the broker again: {_begins_again(topic)}"


def _begins_again(topic: str) -> str:
    """Return what follows at the next start without the log of a partition. A backup is not advised to one of several
    nodes: the log would lack what this replica has acknowledged since.
    """
    return (
        "at its next start the partition is copied from an in-sync replica of another broker; if there is none, it "
        f"begins empty at offset 0, {what_is_lost(topic)}"
    )


def what_is_lost(topic: str) -> str:
    """Return the consequences if a partition of `topic` starts empty."""
    return _LOST.get(topic, _LOST_RECORDS)


def recover_advice(root: Path) -> str:
    """Return the advice for a damaged or missing metadata log of the store in `root`.

    The log of one of several nodes can be neither restored from a backup nor made again without contradicting theirs.
    """
    return (
        "in a cluster of one node, restore it from a backup; or stop the broker and run "
        f"`odradek recover --data {in_shell(root)}`, which makes the metadata log again from the partitions' "
        f"directories. In a cluster of several, {REPLACE_NODE}"
    )


def in_shell(path: Path) -> str:
    """Return the path quoted for a shell. `shlex` is imported at first use, so that a broker starts faster."""
    import shlex

    return shlex.quote(str(path))

"""A client's authorised operations on a resource as bits, for responses that include them (KIP-430).

Without an authorizer every client may perform every operation that the kind of resource has, as in Kafka.
"""

from enum import IntEnum
from typing import Final


class AclOperation(IntEnum):
    """Operations, with the numbers of Kafka's ACLs."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


_O = AclOperation
TOPIC_OPERATIONS: Final = _bits(
    _O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS
)
CLUSTER_OPERATIONS: Final = _bits(
    _O.CREATE,
    _O.ALTER,
    _O.DESCRIBE,
    _O.CLUSTER_ACTION,
    _O.DESCRIBE_CONFIGS,
    _O.ALTER_CONFIGS,
    _O.IDEMPOTENT_WRITE,
)
GROUP_OPERATIONS: Final = _bits(_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS)

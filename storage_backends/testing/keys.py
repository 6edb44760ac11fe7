"""The partitions that the suite uses."""

from uuid import UUID

from odradek.partitions.model import PartitionKey

KEY = PartitionKey("orders", UUID("5b9fbb8e-6d4b-4fda-9a3b-8e7b5b4f7c11"), 0)
SIBLING = PartitionKey("orders", UUID("5b9fbb8e-6d4b-4fda-9a3b-8e7b5b4f7c11"), 1)
REINCARNATION = PartitionKey("orders", UUID("0d5e1d5c-2a55-4d59-8a1e-1f2a3b4c5d6e"), 0)
DOTTED = PartitionKey("a.b-c_d-1", UUID("ffffffff-ffff-4fff-bfff-ffffffffffff"), 12)
LONGEST = PartitionKey("x" * 249, UUID("11111111-1111-4111-8111-111111111111"), 2)

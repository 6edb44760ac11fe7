"""A transactional producer is fenced, as by a second one with the same id."""

from typing import Final

from odradek.gateway.testing.kit.access import Access
from odradek.gateway.testing.kit.lookup import check, retried
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FIND_COORDINATOR_VERSION: Final = 4
DESCRIBE_VERSION: Final = 0
INIT_PRODUCER_VERSION: Final = 4
TRANSACTIONAL: Final = 1


async def fence_producer(access: Access, transactional_id: str) -> None:
    """Fence the producer of a transactional id, as the Admin client's `fenceProducers` does; aborts its transaction.

    Raises LookupError if no producer has used the id.
    """
    await retried(access, lambda: _fence(access, transactional_id))


async def _fence(access: Access, transactional_id: str) -> None:
    find = FindCoordinatorRequest(key_type=TRANSACTIONAL, coordinator_keys=(transactional_id,))
    [found] = (await access.ask(find, FindCoordinatorResponse, FIND_COORDINATOR_VERSION)).coordinators
    check(found.error_code, f"the coordinator of {transactional_id!r}")
    describe = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
    described = await access.ask(describe, DescribeTransactionsResponse, DESCRIBE_VERSION, found.node_id)
    [known] = described.transaction_states
    if known.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise LookupError(f"no producer has used the transactional id {transactional_id!r}")
    check(known.error_code, f"the transactional id {transactional_id!r}")
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=known.transaction_timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
    )
    answer = await access.ask(request, InitProducerIdResponse, INIT_PRODUCER_VERSION, found.node_id)
    check(answer.error_code, f"the producer of {transactional_id!r} is not fenced")

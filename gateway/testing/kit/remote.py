"""Requests of the kit to the brokers of a cluster, each a process of its own, over connections."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import trio

from odradek.gateway.env.environment import Environment, ProductionEnvironment
from odradek.gateway.env.worker_pool import in_own_thread
from odradek.gateway.peers.errors import PeerCallError
from odradek.gateway.peers.peers import Peers
from odradek.gateway.testing.asking import CLIENT_ID
from odradek.gateway.testing.kit.access import ANY_NODE, Access, M, ProducerId
from odradek.gateway.testing.kit.errors import UnreachableError, check
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.wire.schema.schema import Message

T = TypeVar("T")

TIMEOUT_MS: Final = 10_000
ANY_TIMEOUT_MS: Final = 2_000
"""A shorter time for a request that any broker can answer: one of them may be paused."""
INIT_PRODUCER_VERSION: Final = 4
PAUSE_S: Final = 0.1


def run_with_cluster(
    addresses: Mapping[int, tuple[str, int]], function: Callable[[Access], Awaitable[T]], timeout_s: float
) -> T:
    """The result of `function`, run in a Trio loop of its own. Raises what it raises, and TimeoutError.

    `addresses` are those of the brokers by id.
    """

    async def run() -> T:
        env = ProductionEnvironment(threads=1)
        async with trio.open_nursery() as nursery:
            access = RemoteAccess(addresses, env, nursery)
            try:
                with trio.fail_after(timeout_s):
                    return await function(access)
            except trio.TooSlowError:
                raise TimeoutError(access.trouble or f"no result within {timeout_s} s") from None
            finally:
                nursery.cancel_scope.cancel()

    return in_own_thread(lambda: _unpacked(run))


def _unpacked(run: Callable[[], Awaitable[T]]) -> T:
    try:
        return trio.run(run)
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:  # the nursery's
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise


class RemoteAccess:
    """Requests to brokers at `addresses`; their connections are tasks of `nursery`."""

    learns_late = True

    def __init__(self, addresses: Mapping[int, tuple[str, int]], env: Environment, nursery: trio.Nursery) -> None:
        self.trouble = ""
        self._addresses = addresses
        self._env = env
        self._peers = Peers(env, nursery, CLIENT_ID)
        self._answered = next(iter(addresses), ANY_NODE)

    async def ask(self, request: Message, kind: type[M], version: int, node: int = ANY_NODE) -> M:
        """See `Access.ask`."""
        if node != ANY_NODE:
            return await self._ask(request, kind, version, node, TIMEOUT_MS)
        others = [each for each in self._addresses if each != self._answered]
        problem = UnreachableError("there is no broker")
        for each in (self._answered, *others):
            try:
                answer = await self._ask(request, kind, version, each, ANY_TIMEOUT_MS)
            except UnreachableError as error:
                problem = error
            else:
                self._answered = each
                return answer
        raise problem

    async def _ask(self, request: Message, kind: type[M], version: int, node: int, timeout_ms: int) -> M:
        address = self._addresses.get(node)
        if address is None:
            raise UnreachableError(f"broker {node} is not of this cluster")
        try:
            answer = await self._peers.at(node, address).call(request, version, timeout_ms)
        except PeerCallError as error:
            raise UnreachableError(str(error)) from error
        assert isinstance(answer, kind)
        return answer

    async def producer(self) -> ProducerId:
        """See `Access.producer`. Raises TemporaryError while no broker can give one."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS)
        answer = await self.ask(request, InitProducerIdResponse, INIT_PRODUCER_VERSION)
        check(answer.error_code, "InitProducerId")
        return ProducerId(answer.producer_id, answer.producer_epoch)

    async def pause(self) -> None:
        """See `Access.pause`."""
        await trio.sleep(PAUSE_S)

    async def change(self) -> None:
        """See `Access.change`: from outside, nothing tells."""
        await trio.sleep(PAUSE_S)

    def wall_ms(self) -> int:
        """See `Access.wall_ms`: this machine's clock."""
        return self._env.wall_ms()

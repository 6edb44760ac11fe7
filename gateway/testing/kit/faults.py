"""Scripted faults: the next requests of a kind fail, wait, get no reply, or lose their connection.

`broker.faults.next("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)` arms a fault. A request meets at most one
fault: the one armed first that applies to it. Nothing is random. Arming never blocks, so it may be done in an event
loop's thread, and at any time: also before the broker starts, and it stays armed when the broker restarts.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

import trio

from odradek.gateway.testing.kit.error_replies import names_topics, request_type
from odradek.gateway.testing.kit.names import api_named, error_named, name_of_api
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.schema.schema import Message

When = Literal["before", "after"]
"""Whether a fault comes before the request is handled, so that nothing of it is done, or after it, instead of or before
the reply."""

HITS_KEPT: Final = 1000


class Request(NamedTuple):
    """One request as a predicate sees it: the API's name in Kafka, its version, and the decoded message."""

    api: str
    version: int
    client_id: str | None
    message: Message


class Hit(NamedTuple):
    """One request that met a fault."""

    api: str
    version: int
    client_id: str | None
    partitions: tuple[tuple[str, int | None], ...]
    """The topics and partitions of the request that the fault selects; the partition is None if it names topics only.
    """


class FaultPlan(NamedTuple):
    """What a fault does, and to which requests; `api` is None for all APIs, `times` is None for an unlimited number."""

    api: ApiKey | None
    times: int | None
    error: ErrorCode | None
    delay_s: float
    drop: bool
    close: bool
    when: When
    client_id: str | None
    topic: str | None
    partition: int | None
    matching: Callable[[Request], bool] | None
    must_happen: bool

    def __str__(self) -> str:
        what = [f"error={self.error.name}"] if self.error is not None else []
        what += [f"delay={self.delay_s:g}"] if self.delay_s else []
        what += [name for name in ("drop", "close") if getattr(self, name)]
        which = [f"{key}={getattr(self, key)!r}" for key in ("client_id", "topic", "partition") if self._has(key)]
        which += ["matching=…"] if self.matching is not None else []
        api = "*" if self.api is None else name_of_api(self.api)
        return f"{api} {' '.join([*what, *which])} when={self.when}"

    @property
    def selects_partitions(self) -> bool:
        """True if only some topics or partitions fail."""
        return self.topic is not None or self.partition is not None

    def _has(self, key: str) -> bool:
        return getattr(self, key) is not None


class Fault:
    """A fault that was armed. As a context manager it is removed at the end of the block.

    `failure` is what its `matching` has raised; the fault has then been removed.
    """

    def __init__(self, plan: FaultPlan, faults: "Faults") -> None:
        self.plan = plan
        self.failure: Exception | None = None
        self.count = 0
        self._faults = faults
        self._hits: deque[Hit] = deque(maxlen=HITS_KEPT)
        self._changed = faults.changed
        self._waiting: list[tuple[trio.lowlevel.TrioToken, trio.Event]] = []
        self._is_removed = False

    @property
    def hits(self) -> list[Hit]:
        """The requests that have met it, the oldest first: the last thousand; `count` is the number of all."""
        with self._changed:
            return list(self._hits)

    @property
    def is_used_up(self) -> bool:
        """True if no further request can meet it."""
        return self._is_removed or self.count == self.plan.times

    def wait(self, count: int = 1, within: float = 10.0) -> None:
        """Wait until `count` requests have met it; blocks at most `within` seconds. Raises TimeoutError."""
        deadline = time.monotonic() + within
        with self._changed:
            while self.count < count:
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not self._changed.wait(left_s):
                    raise TimeoutError(f"{self.count} of {count} requests met {self} within {within:g} s")

    def remove(self) -> None:
        """Disarm it, and let the requests go on that it delays or drops; does nothing if it is removed already.

        The connection of a dropped request is closed then. Raises the exception of its `matching`, if there was one.
        """
        self._faults.forget(self)
        with self._changed:
            self._is_removed = True
        self.release()
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def check(self) -> None:
        """Raise AssertionError if it was to happen and has not."""
        if self.plan.must_happen and not self.count:
            raise AssertionError(f"no request met {self}")

    # Called on the broker's threads

    def note(self, hit: Hit) -> None:
        """Count a request. The caller holds the lock of `Faults.changed`."""
        self.count += 1
        self._hits.append(hit)
        self._changed.notify_all()

    async def released(self) -> None:
        """Wait until the fault is removed or the broker stops. On the Trio thread."""
        event = trio.Event()
        waiting = (trio.lowlevel.current_trio_token(), event)
        with self._changed:
            if self._is_removed or self._faults.is_stopping:
                return
            self._waiting.append(waiting)
        try:
            await event.wait()
        finally:
            with self._changed:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)

    def release(self) -> None:
        """Let the requests go on that wait now. From any thread."""
        with self._changed:
            waiting, self._waiting = self._waiting, []
        for token, event in waiting:
            try:
                token.run_sync_soon(event.set)
            except trio.RunFinishedError:
                continue

    def __str__(self) -> str:
        return f"the fault {self.plan}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
        if error is None:
            self.check()


class Faults:
    """The scripted faults of one broker. All methods may be called from any thread, and none but `Fault.wait` blocks.

    Parameters of `next` and `always`:

    `api`: Kafka's name of the API, or `*` for all. What happens: `error` (Kafka's name) is the reply, `close` closes
    the connection, `drop` never replies on that connection again, and `delay` waits so many seconds first, or is all
    that happens. `when="before"` does it instead of the request; `when="after"` executes the request, and then does it
    instead of the reply. Which requests: those of a `client_id`, those that name a `topic` or a `partition`, those for
    which `matching` returns True. With an `error`, only these partitions fail, and the request is executed for the
    others. `must_happen`: `check`, and the end of a `with` block, raise AssertionError if no request has met it.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.is_stopping = False
        self._armed: list[Fault] = []
        self._all: list[Fault] = []

    def next(
        self,
        api: str,
        *,
        times: int = 1,
        error: str | ErrorCode | None = None,
        delay: float = 0.0,
        drop: bool = False,
        close: bool = False,
        when: When = "before",
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        matching: Callable[[Request], bool] | None = None,
        must_happen: bool = False,
    ) -> Fault:
        """Arm a fault of the next `times` requests. Raises ValueError, with a suggestion for a wrong name."""
        if times < 1:
            raise ValueError(f"times={times}: a fault happens at least once")
        options = _options(error, delay, drop, close, when, client_id, topic, partition, matching, must_happen)
        return self._arm(api, times, options)

    def always(
        self,
        api: str,
        *,
        error: str | ErrorCode | None = None,
        delay: float = 0.0,
        drop: bool = False,
        close: bool = False,
        when: When = "before",
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        matching: Callable[[Request], bool] | None = None,
        must_happen: bool = False,
    ) -> Fault:
        """Arm a fault of all requests until it is removed, for instance at the end of a `with` block.

        Raises ValueError, with a suggestion for a wrong name.
        """
        options = _options(error, delay, drop, close, when, client_id, topic, partition, matching, must_happen)
        return self._arm(api, None, options)

    @property
    def pending(self) -> list[Fault]:
        """The faults that further requests can meet, in the order in which they were armed."""
        with self.changed:
            return list(self._armed)

    def clear(self) -> None:
        """Remove all faults, and let the requests go on that they delay or drop.

        Raises the exception of a fault's `matching`, if there was one.
        """
        with self.changed:
            faults, self._all, self._armed = self._all, [], []
        failures = [fault.failure for fault in faults if fault.failure is not None]
        for fault in faults:
            fault.failure = None
            fault.remove()
        if failures:
            raise failures[0]

    def check(self) -> None:
        """Raise AssertionError naming the first fault since the last `clear` that was to happen and has not."""
        with self.changed:
            faults = list(self._all)
        for fault in faults:
            fault.check()

    def forget(self, fault: Fault) -> None:
        """Disarm a fault."""
        with self.changed:
            self._disarm(fault)
            self._all = [each for each in self._all if each is not fault]

    def _disarm(self, fault: Fault) -> None:
        self._armed = [each for each in self._armed if each is not fault]

    def let_go(self) -> None:
        """Hold up no more requests, and let those go on that wait now: the broker stops. The faults stay armed."""
        with self.changed:
            self.is_stopping = True
            faults = list(self._all)
        for fault in faults:
            fault.release()

    def _arm(self, api: str, times: int | None, options: Mapping[str, Any]) -> Fault:
        plan = FaultPlan(api=api_named(api), times=times, **options)
        if plan.selects_partitions and plan.api is not None and not names_topics(request_type(plan.api)):
            raise ValueError(f"{api} requests name no topics, so topic and partition select none of them")
        fault = Fault(plan, self)
        with self.changed:
            self._armed.append(fault)
            self._all.append(fault)
        return fault

    # Called on the broker's threads

    def begin(self) -> None:
        """Begin to delay and drop requests: a broker has started."""
        with self.changed:
            self.is_stopping = False

    @property
    def is_any_armed(self) -> bool:
        """True if a request may meet a fault."""
        return bool(self._armed)

    def met_by(self, api: ApiKey, meets: Callable[[Fault], Hit | None]) -> Fault | None:
        """The first armed fault that the request meets: of its API, and with a hit; counts it."""
        with self.changed:
            for fault in self._armed:
                if fault.plan.api in (None, api) and (hit := self._hit(fault, meets)) is not None:
                    fault.note(hit)
                    if fault.is_used_up:
                        self._disarm(fault)
                    return fault
        return None

    def _hit(self, fault: Fault, meets: Callable[[Fault], Hit | None]) -> Hit | None:
        """The result of `meets`. A fault whose `matching` raises is disarmed; the test's thread gets the exception."""
        try:
            return meets(fault)
        except Exception as error:  # noqa: BLE001 - the test's code, whose errors belong to the test
            fault.failure = error
            self._disarm(fault)
            return None


def _options(
    error: str | ErrorCode | None,
    delay: float,
    drop: bool,
    close: bool,
    when: When,
    client_id: str | None,
    topic: str | None,
    partition: int | None,
    matching: Callable[[Request], bool] | None,
    must_happen: bool,
) -> dict[str, Any]:
    """The checked options of a fault. Raises ValueError."""
    if (error is not None) + drop + close > 1:
        raise ValueError("a fault has one of error, drop and close")
    if delay < 0 or not (error is not None or drop or close or delay):
        raise ValueError("say what happens: error='…', close=True, drop=True or delay=seconds")
    if when not in ("before", "after"):
        raise ValueError(f"when={when!r} is neither 'before' nor 'after'")
    code = error_named(error) if isinstance(error, str) and not isinstance(error, ErrorCode) else error
    return {
        "error": code,
        "delay_s": delay,
        "drop": drop,
        "close": close,
        "when": when,
        "client_id": client_id,
        "topic": topic,
        "partition": partition,
        "matching": matching,
        "must_happen": must_happen,
    }

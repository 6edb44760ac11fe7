"""Finds turns of the Trio loop that take too long: during one, every connection of the broker waits.

A turn is what the loop does between two waits for I/O. Its length is not wall-clock time but the time that the loop's
own thread causes: a busy machine that does not schedule the thread, or a test whose other threads hold the interpreter
lock, is no defect of the broker. Two kinds of time are measured and added up:

- *busy*: the processor time of the loop's thread (a loop over many records, a call into a library);
- *blocked*: time in which a second thread, the sampler, finds the loop's thread asleep in a system call (a disk, a
  pipe). A thread that waits for the processor is not asleep. Sleep on a futex is not counted, since that is how a
  thread waits for the interpreter lock. On systems without `/proc`, blocked time is not measured. On systems whose
  threads cannot read each other's processor clock, a busy turn is counted when it has ended.

The cost to the loop is one short call and one reading of the monotonic clock for each turn, and nothing for a step of a
task. The loop reads its processor clock, which is a system call, at most 25 times in `limit_ms`. So the processor time
at which a turn began is known only to a twenty-fifth of the limit, and a turn is measured too short by that much at
most. The sampler wakes four times in `limit_ms`, and not at all while the loop is idle. It records the stack, keeps the
statistics, and logs: the first long turn at once with its stack, later ones once a minute with their number.
"""

import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from types import CodeType, FrameType
from typing import Final

import trio

from odradek.facilities import has
from odradek.wire.values import mutable

log = logging.getLogger(__name__)

TICKS: Final = 4
"""The number of times that the sampler wakes in `limit_ms`."""
LOG_EVERY_MS: Final = 60_000
"""The least interval between two warnings, in milliseconds; a warning counts the long turns since the last one."""
CPU_READINGS: Final = 25
"""The number of times that the loop reads its processor clock in `limit_ms`, at most."""
STACK_FRAMES: Final = 12
"""The number of innermost frames that a warning shows."""
AWAKE: Final = frozenset({b"", b"0"})
"""What `/proc` shows for a thread that does not sleep."""
INTERPRETER_WAIT: Final = b"futex"
WAITS_IN: Final = "get_events"
"""Trio's function that waits for I/O: while the loop is in it, it is between two turns."""


@mutable
class LoopRecord:
    """Statistics of the loop's turns so far. Written by the sampler only; any thread may read it.

    `longest_ms` is the sum of busy and blocked time. `last_stack` is the stack of the last long turn when sampled, the
    innermost call last; it is empty if the turn never released the interpreter's lock, so that no sample was possible.
    """

    long_turns: int = 0
    longest_ms: float = 0.0
    last_stack: str = ""


@mutable
class _Turn:
    """The sampler's measurements of the running turn."""

    number: int
    blocked_ns: int = 0
    locations: Sequence[tuple[CodeType, int | None]] = ()
    seen_ns: int = 0
    counted: bool = False


@mutable
class LoopClocks:
    """The clocks that the watch uses: nanoseconds of a monotonic clock, and of a thread's processor time.

    `cpu_ns` is called in the loop's thread; `cpu_of` returns a function that reads the same clock from another thread.
    """

    steady_ns: Callable[[], int]
    cpu_ns: Callable[[], int]
    cpu_of: Callable[[int], Callable[[], int]]


class LoopWatch(trio.abc.Instrument):
    """Watches the `trio.run` in which it is created.

    Turns of at least `limit_ms` are long; see the module's docstring.
    """

    def __init__(self, limit_ms: int, clocks: LoopClocks) -> None:
        self.record = LoopRecord()
        self._limit_ns = limit_ms * 1_000_000
        self._limit_ms = limit_ms
        self._cpu_every_ns = self._limit_ns // CPU_READINGS
        self._clocks = clocks
        self._cpu_ns = clocks.cpu_ns
        self._steady_ns = clocks.steady_ns
        self._wake = threading.Event()  # ends a wait of the sampler: set to stop it, and to end its rest
        self._is_stopping = False
        self.is_resting = False  # the sampler waits for the next turn, which clears this and wakes the sampler
        # Written by the loop, read by the sampler:
        self._number = 0
        self._read_at_ns, self._read_cpu_ns = clocks.steady_ns(), clocks.cpu_ns()
        # the processor time at the turn's beginning; it may be too high, never too low
        self._began_cpu_ns = self._read_cpu_ns
        # number and processor time of each ended turn that was busy too long
        self._ended: deque[tuple[int, int]] = deque()
        # Used by the sampler only:
        self._ident = threading.get_ident()
        self._cpu_of_loop = clocks.cpu_of(self._ident)
        self._asleep_fd: int | None = None
        self._turn = self._before = _Turn(-1)
        self._waiting_number = -1  # the turn in which the sampler last found the loop waiting for I/O
        self._is_idle = False
        self._unreported = 0
        self._reported_ns: int | None = None

    # In the loop's thread

    def after_io_wait(self, timeout: float) -> None:
        """Note that a turn has begun, and end the one before; processor time of the wait counts with the latter."""
        del timeout
        now_ns = self._steady_ns()
        since_ns = now_ns - self._read_at_ns
        if since_ns >= self._cpu_every_ns:  # always true after a long turn
            cpu_ns = self._cpu_ns()
            if cpu_ns - self._began_cpu_ns >= self._limit_ns:
                self._ended.append((self._number, cpu_ns - self._began_cpu_ns))
            self._read_at_ns, self._read_cpu_ns, since_ns = now_ns, cpu_ns, 0
        self._began_cpu_ns = self._read_cpu_ns + since_ns
        self._number += 1
        # the number is raised before this is read, and the sampler sets this before it reads the number: no wake is
        # lost
        if self.is_resting:
            self.is_resting = False
            self._wake.set()

    @contextmanager
    def watching(self) -> Generator[LoopRecord]:
        """Watch until the end of the block. Enter and leave the block in the loop's thread."""
        sampler = threading.Thread(target=self._sample, name="odradek-loop-watch", daemon=True)
        if sys.platform == "linux" and has("proc"):
            with suppress(OSError):
                self._asleep_fd = os.open(f"/proc/self/task/{threading.get_native_id()}/wchan", os.O_RDONLY)
        trio.lowlevel.add_instrument(self)
        sampler.start()
        try:
            yield self.record
        finally:
            trio.lowlevel.remove_instrument(self)
            self._is_stopping = True
            self._wake.set()
            sampler.join()
            if self._asleep_fd is not None:
                os.close(self._asleep_fd)

    # In the sampler's thread

    def _sample(self) -> None:
        while not self._is_stopping:
            if self._wake.wait(self._limit_ms / 1000 / TICKS):
                self._wake.clear()
            self._look()
            self._count_ended()
            self._report()
            if self._is_idle and not self._unreported:
                self._rest()
        self._count_ended()
        self._report()

    def _rest(self) -> None:
        """Wait until the loop begins another turn, or the watch is to stop."""
        self.is_resting = True
        if self._number == self._waiting_number and not self._is_stopping:
            self._wake.wait()
        self.is_resting = False

    def _look(self) -> None:
        """Sample the running turn, and count it as soon as it is long."""
        number = self._number
        # There is no public way to get another thread's stack.
        frame = sys._current_frames().get(self._ident)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        is_waiting = frame is None or frame.f_code.co_name == WAITS_IN
        self._is_idle = is_waiting and number == self._waiting_number
        self._waiting_number = number if is_waiting else -1
        if frame is None or is_waiting:
            return
        is_asleep = self._turn.number == number and self._is_asleep()
        locations = _locations(frame)
        cpu_ns, now_ns = self._cpu_of_loop() - self._began_cpu_ns, self._clocks.steady_ns()
        if self._number != number:
            return  # the turn has ended meanwhile, so the sampled stack may be of the next one
        if self._turn.number != number:
            self._before, self._turn = self._turn, _Turn(number)
        elif is_asleep:
            self._turn.blocked_ns += now_ns - self._turn.seen_ns
        turn = self._turn
        turn.seen_ns, turn.locations = now_ns, locations
        if turn.blocked_ns + cpu_ns >= self._limit_ns:
            self._count(turn, cpu_ns)

    def _is_asleep(self) -> bool:
        """True if the loop's thread sleeps in a system call, and not to wait for the interpreter lock."""
        if sys.platform != "linux" or self._asleep_fd is None:
            return False
        try:
            where = os.pread(self._asleep_fd, 64, 0)
        except OSError:
            return False
        return where not in AWAKE and INTERPRETER_WAIT not in where

    def _count_ended(self) -> None:
        """Count the ended turns that the loop itself has found busy for too long."""
        while self._ended:
            number, cpu_ns = self._ended.popleft()
            seen = [turn for turn in (self._turn, self._before) if turn.number == number]
            self._count(seen[0] if seen else _Turn(number), cpu_ns)

    def _count(self, turn: _Turn, cpu_ns: int) -> None:
        record = self.record
        if not turn.counted:
            turn.counted = True
            record.long_turns += 1
            self._unreported += 1
        record.last_stack = "\n".join([_formatted(*location) for location in turn.locations])
        record.longest_ms = max(record.longest_ms, (turn.blocked_ns + cpu_ns) / 1_000_000)

    def _report(self) -> None:
        if not self._unreported:
            return
        now_ns = self._clocks.steady_ns()
        if self._reported_ns is not None and now_ns - self._reported_ns < LOG_EVERY_MS * 1_000_000:
            return
        log.warning(
            "the event loop was held up long_turns=%d longest_ms=%d (odradek.loop.stall.warn.ms=%d) last seen in:\n%s",
            self._unreported,
            self.record.longest_ms,
            self._limit_ms,
            self.record.last_stack or "(not seen: the interpreter was not given up)",
            extra={"several_lines": True},
        )
        self._unreported, self._reported_ns = 0, now_ns


def _locations(frame: FrameType) -> list[tuple[CodeType, int | None]]:
    """The code and line of each of the innermost frames, the innermost last."""
    locations: list[tuple[CodeType, int | None]] = []
    each: FrameType | None = frame
    while each is not None and len(locations) < STACK_FRAMES:
        locations.append((each.f_code, each.f_lineno))
        each = each.f_back
    return locations[::-1]


def _formatted(code: CodeType, line: int | None) -> str:
    return f"  {code.co_filename}:{line} in {code.co_qualname}"

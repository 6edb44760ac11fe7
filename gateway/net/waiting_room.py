"""Where quiet connections wait together, so that words that are repeated cost no task its turn.

A member of a group says the same heartbeat every few seconds and is told the same. Waking its connection's task for
that costs more than all that a heartbeat is about: with ten thousand members most of the broker's time would go into
Trio's scheduling. So these connections wait in one epoll of their own, which Trio sees as a single descriptor, and one
task hears them all. A connection's own task goes on when its peer says what has no answer yet.

A single word is heard at once. While much is said the room listens every few milliseconds, and hears many at a time.
"""

import select
import socket
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import outcome
import trio

MIN_PAUSE_S: Final = 0.001
MAX_PAUSE_S: Final = 0.020
"""For how long the room lets words gather after it has heard some; longer the more is said, for to wake up is dear."""
AT_ONCE: Final = 1024
"""For how many the system is asked in one call, which takes memory for each."""
MAX_WORD_BYTES: Final = 512
"""How much is received at once from one guest."""

Answer = Callable[[bytes], bytes | bytearray | None]
"""Gives the answer to what was received, or None: it is for someone else."""


class Counting(Protocol):
    """Whoever wants to know how much has been sent."""

    sent_bytes: int


class Guest(NamedTuple):
    """One who waits."""

    sock: socket.socket
    answer: Answer
    sent: Counting


class WaitingRoom:
    """Waits for any number of sockets in one task, which lives from the first guest until `close` and the last.

    No new guest may come when `is_open` is no longer true. Only where the system has epoll: see `has_epoll`.
    """

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._guests: dict[int, Guest] = {}
        self._tasks: dict[int, trio.lowlevel.Task] = {}
        self._scope = trio.CancelScope()
        self.is_open = True
        self._is_running = False

    async def wait(self, guest: Guest) -> bytes:
        """Answer whatever has an answer, and give what has none; empty means that the peer has finished.

        Raises OSError, ClosedResourceError after `turn_out`, and what `answer` raises. A cancelled call has received
        nothing that is not answered.
        """
        if not self._is_running:
            self._is_running = True
            trio.lowlevel.spawn_system_task(self._listen)
        number = guest.sock.fileno()
        self._guests[number], self._tasks[number] = guest, trio.lowlevel.current_task()
        self._poll.register(number, select.EPOLLIN)

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            self._leave(number)
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(abort)

    def turn_out(self, sock: socket.socket) -> None:
        """End the wait for a socket that is about to be closed, if there is one."""
        number = sock.fileno()
        if number in self._guests:
            self._call(number, outcome.Error(trio.ClosedResourceError("another task closed this socket")))

    def close(self) -> None:
        """Take no more guests than are there; the room ends with the last of them."""
        self.is_open = False
        self._end_if_deserted()

    def _leave(self, number: int) -> trio.lowlevel.Task:
        self._poll.unregister(number)
        del self._guests[number]
        task = self._tasks.pop(number)
        self._end_if_deserted()
        return task

    def _call(self, number: int, result: outcome.Outcome[bytes]) -> None:
        trio.lowlevel.reschedule(self._leave(number), result)

    def _end_if_deserted(self) -> None:
        if not self.is_open and not self._guests:
            self._scope.cancel()
            if not self._is_running:
                self._poll.close()

    async def _listen(self) -> None:
        with self._poll, self._scope:
            while True:
                await trio.lowlevel.wait_readable(self._poll)
                pause_s = MIN_PAUSE_S
                while words := self._hear_all():
                    await trio.sleep(pause_s)
                    pause_s = min(pause_s * 2, MAX_PAUSE_S) if words > 1 else MIN_PAUSE_S

    def _hear_all(self) -> int:
        """Hear everybody who has something to say, however many these are, and count them.

        After the process stood still, nobody who did speak may be given up for silence (`Coordinator`). Nobody is
        heard much more than once, so that guests who speak on and on do not keep everyone else from a turn.
        """
        heard = 0
        for _ in range(len(self._guests) // AT_ONCE + 1):
            ready = self._poll.poll(0, AT_ONCE)
            for number, _ in ready:
                self._hear(number)
            heard += len(ready)
            if len(ready) < AT_ONCE:
                break
        return heard

    def _hear(self, number: int) -> None:
        sock, answer, sent = self._guests[number]
        word: bytes | None = None
        try:
            word = sock.recv(MAX_WORD_BYTES)
            reply = answer(word) if word else None
            if reply is None:
                self._call(number, outcome.Value(word))
                return
            size = sock.send(reply)
        except BlockingIOError:
            if word is not None:  # its task will wait until the peer takes answers
                self._call(number, outcome.Value(word))
            return
        except Exception as error:  # noqa: BLE001 - raised in the guest's own task
            self._call(number, outcome.Error(error))
            return
        sent.sent_bytes += size
        if size < len(reply):
            self._call(number, outcome.Error(ConnectionAbortedError("the peer takes no answers")))


def has_epoll() -> bool:
    """Whether there can be waiting rooms here: on Linux."""
    return hasattr(select, "epoll")

"""The interface of a load: clients of one kind in a simulation, and the checks of their answers.

A load runs while faults occur. Once they are over (`calm`), it finishes, and the brokers must then have everything that
they have acknowledged to it. Its state must also survive a crash.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import trio


class Load(Protocol):
    """One kind of load. Each method raises Violation."""

    tally: Counter[str]
    """Counts of events, with which a test checks that the load reached the cases that it is about."""

    wait_limit_s: float
    """The limit, in virtual time and without faults, within which it must finish."""

    @property
    def hosts(self) -> Sequence[str]:
        """The hosts of its clients that faults may cut off."""
        ...

    @property
    def topics(self) -> Sequence[str]:
        """The topics that must exist at the end."""
        ...

    async def set_up(self) -> None:
        """Create topics and other preconditions, before there are faults."""
        ...

    async def run(self, calm: trio.Event) -> None:
        """Run the clients. From `calm` on there are no more faults, and it finishes all that was begun."""
        ...

    async def state(self) -> Mapping[str, Any]:
        """The state that brokers return, which a crash must not change."""
        ...

    def judge(self, state: Mapping[str, Any]) -> None:
        """Compare the recorded answers with the state at the end."""
        ...

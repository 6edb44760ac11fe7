"""The interface of a load: a part of the work of a simulation, with its own clients and checks.

A load begins while faults occur. Once they are over (`calm`), it comes to an end, and everything that was acknowledged
to it must then be there. Its state must also survive a crash.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import trio


class Load(Protocol):
    """One kind of work. Each method raises Violation."""

    tally: Counter[str]
    """What has happened, so that a test can tell whether its promises were at stake."""

    wait_limit_s: float
    """How long, in virtual time and without faults, it may take to come to its end."""

    @property
    def hosts(self) -> Sequence[str]:
        """The hosts of its clients, as far as faults may cut them off."""
        ...

    @property
    def topics(self) -> Sequence[str]:
        """The topics that must exist at the end."""
        ...

    async def set_up(self) -> None:
        """Create what it needs, without faults."""
        ...

    async def run(self, calm: trio.Event) -> None:
        """Work; from `calm` on there are no more faults, and everything that was begun comes to its end."""
        ...

    async def state(self) -> Mapping[str, Any]:
        """What the broker says, which a crash must not change."""
        ...

    def judge(self, state: Mapping[str, Any]) -> None:
        """Compare what was promised with the state at the end."""
        ...

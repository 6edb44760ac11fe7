"""Small synchronous producers that go round over many partitions, each connection over its own share of them."""

from __future__ import annotations

import itertools
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.loads.raw import Client, produce_frame, run_clients

LEADERS_WITHIN_S = 60
"""A thousand partitions take their time on either side."""


class Spreading(Client):
    """A client whose every request is for the next of its partitions; each has had a first one when this is made."""

    _spreads = False

    def __init__(self, bootstrap: str, topic: str, partitions: range, *, size_bytes: int) -> None:
        self._frames = itertools.cycle(
            [produce_frame(topic, index, records=1, size_bytes=size_bytes) for index in partitions]
        )
        super().__init__(bootstrap, topic, partitions[0], records=1, size_bytes=size_bytes)
        for _ in partitions:
            self._frame = next(self._frames)
            self.await_leader(within_s=LEADERS_WITHIN_S)
        self._spreads = True

    def send(self) -> None:
        """Send the request for the next partition."""
        if self._spreads:
            self._frame = next(self._frames)
        super().send()


def spread(
    bootstrap: str, topic: str, partitions: int, connections: int, size_bytes: int, duration_s: float, slices: int
) -> dict[str, float]:
    """Requests and seconds of so many slices of a time.

    Says `ready` when every partition has had a first request, and `done` after each slice; it waits for a line before
    each, and before it ends.
    """
    shares = [range(number, partitions, connections) for number in range(connections)]
    with ThreadPoolExecutor(connections) as pool:
        clients = list(pool.map(lambda share: Spreading(bootstrap, topic, share, size_bytes=size_bytes), shares))
    print("ready", flush=True)
    requests, seconds = 0, 0.0
    for _ in range(slices):
        sys.stdin.readline()
        started = time.perf_counter()
        requests += len(run_clients(clients, duration_s / slices))
        seconds += time.perf_counter() - started
        print("done", flush=True)
    sys.stdin.readline()
    return {"requests": requests, "seconds": seconds}


def main(kind: str, arguments: dict[str, Any]) -> None:
    """Run one load and print what came out."""
    print(json.dumps({"spread": spread}[kind](**arguments)))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))

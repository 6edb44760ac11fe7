"""Small synchronous producers over many partitions: each connection produces to its share of them in turn."""

from __future__ import annotations

import itertools
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.loads.raw import Client, produce_frame, run_clients

LEADERS_WITHIN_S = 60
"""A thousand partitions take long to get leaders, on both sides."""


class Spreading(Client):
    """A client that sends each request to the next of its partitions; the constructor sends a first one to each."""

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
    """The number of requests, and seconds, of a load of `duration_s` in `slices` parts.

    Prints `ready` when every partition has received a first request, and `done` after each slice; waits for a line
    before each slice, and before it ends.
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
    """Run one load and print its figures."""
    print(json.dumps({"spread": spread}[kind](**arguments)))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))

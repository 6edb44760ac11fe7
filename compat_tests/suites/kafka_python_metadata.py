"""A pytest plugin for kafka-python's own tests: mends a race of the client that fails them on any broker.

kafka-python 3.0.12 takes every answer to a metadata request as the newest. Topics that are set while a request is on
its way are not in it, and its answer also clears the client's need of an update: a consumer that was given a version
of the broker, as the tests do, and that subscribes in the round trip of its first request sees no topic for
`metadata_max_age_ms`, five minutes. With the answers delayed by 100 ms a real Kafka shows it at each attempt.
"""

from __future__ import annotations

from typing import Any

from kafka.cluster import ClusterMetadata
from kafka.net import manager


class MendedMetadata(ClusterMetadata):
    """Asks once more if an update was wanted after the request that is answered."""

    _wanted = False

    def request_update(self) -> Any:
        self._wanted = True
        return super().request_update()

    def metadata_request(self) -> Any:
        self._wanted = False
        return super().metadata_request()

    def update_metadata(self, metadata: Any) -> None:
        super().update_metadata(metadata)
        if self._wanted:
            self.request_update()


def pytest_configure() -> None:
    manager.ClusterMetadata = MendedMetadata

"""Retention: deletes old segments every `log.retention.check.interval.ms`, and when topics' settings change."""

import logging
from collections.abc import Callable, Collection, Hashable

from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.replication.recovery import shared_cause
from odradek.gateway.replication.replica import Replica
from odradek.gateway.replication.replicas import Replicas
from odradek.partitions.retention import retention_start
from odradek.storage_backends.interface import StoreError

log = logging.getLogger(__name__)


class RetentionTask:
    """Deletes segments beyond `retention.ms` and `retention.bytes`. A closed log is opened only for a deletion."""

    def __init__(self, replicas: Replicas, env: Environment, config: Callable[[], BrokerConfig]) -> None:
        self._replicas = replicas
        self._env = env
        self._config = config
        self._changes = Signal()
        self._changed: set[str] = set()

    def wake(self, topics: Collection[str]) -> None:
        """Check these topics now: their settings have changed."""
        self._changed.update(topics)
        self._changes.wake()

    async def run(self) -> None:
        """Check all logs periodically, and changed topics at once, until cancelled."""
        due_ms = self._env.monotonic_ms() + self._config().log_initial_task_delay_ms
        while True:
            await self._changes.wait(max(due_ms - self._env.monotonic_ms(), 0))
            changed, self._changed = self._changed, set()
            await self._check_all(changed)
            if self._env.monotonic_ms() >= due_ms:
                await self._check_all(None)
                due_ms = self._env.monotonic_ms() + self._config().log_retention_check_interval_ms

    async def _check_all(self, topics: Collection[str] | None) -> None:
        """Check the logs of these topics, or of all, one after the other."""
        if topics is not None and not topics:
            return
        try:
            stored = await self._replicas.all_stored()
        except StoreError as error:
            self._note("list", error, "retention cannot list the logs, tried again at the next check cause=%s", error)
            return
        for replica in stored:
            if replica.config.is_deleted and (topics is None or replica.key.topic in topics):
                await self.check(replica)

    async def check(self, replica: Replica) -> None:
        """Delete the old segments of one log; failures are logged, and the next check tries again."""
        try:
            if await self._start(replica) is not None:
                await self._delete_old(replica)
        except (PartitionUnavailable, StoreError) as error:
            if isinstance(error, StoreError) or error.is_offline:  # otherwise the log was deleted meanwhile
                self._note(replica.key, error, "retention failed partition=%s cause=%s", replica.key, error)
        except Exception:  # a defect that concerns one log must not end the broker
            log.exception("retention failed because of a defect partition=%s", replica.key)

    async def _delete_old(self, replica: Replica) -> None:
        await replica.ensure_open()
        start_offset = await self._start(replica)  # opening may have taken a while
        if start_offset is not None:
            await replica.move_log_start(start_offset)
            log.info("deleted old segments partition=%s log_start_offset=%d", replica.key, start_offset)

    def _note(self, what: Hashable, error: Exception, message: str, *args: object) -> None:
        key = ("retention", shared_cause(error) or what)
        self._replicas.repeats.note(key, log, logging.WARNING, message, *args)

    async def _start(self, replica: Replica) -> int | None:
        view = await replica.view()
        return retention_start(
            view.segments, high_watermark=view.high_watermark, config=replica.config, now_ms=self._env.wall_ms()
        )

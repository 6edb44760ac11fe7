"""The janitor: old segments go every `log.retention.check.interval.ms`, and whenever topics' settings change."""

import logging
from collections.abc import Callable

from gateway.config import BrokerConfig
from gateway.environment import Environment
from gateway.runtime.replica import Replica, ReplicaGoneError, ReplicaOfflineError
from gateway.runtime.replicas import Replicas
from gateway.runtime.upkeep import Alarm
from partitions.retention import retention_start
from storage_backends.interface import StoreError

log = logging.getLogger(__name__)


class RetentionJanitor:
    """Deletes what `retention.ms` and `retention.bytes` do not keep. A log that nobody uses is not opened for that."""

    def __init__(self, replicas: Replicas, env: Environment, config: Callable[[], BrokerConfig]) -> None:
        self._replicas = replicas
        self._env = env
        self._config = config
        self._alarm = Alarm()

    def wake(self) -> None:
        """Settings have changed: look now."""
        self._alarm.ring()

    async def run(self) -> None:
        """Check all logs again and again, until cancelled."""
        await self._alarm.pause(self._config().log_initial_task_delay_ms)
        while True:
            await self.check_all()
            await self._alarm.pause(self._config().log_retention_check_interval_ms)

    async def check_all(self) -> None:
        """Check every log once, one after the other."""
        for replica in await self._replicas.all_stored():
            if replica.config.is_deleted:
                await self.check(replica)

    async def check(self, replica: Replica) -> None:
        """Delete the old segments of one log; failures are logged, and the next check tries again."""
        try:
            if await self._start(replica) is None:
                return
            await replica.ensure_open()
            start_offset = await self._start(replica)  # opening may have taken a while
            if start_offset is not None:
                await replica.move_log_start(start_offset)
                log.info("deleted old segments partition=%s log_start_offset=%d", replica.key, start_offset)
        except (ReplicaOfflineError, StoreError) as error:
            log.warning("retention failed partition=%s cause=%s", replica.key, error)
        except ReplicaGoneError:
            return  # deleted as a whole meanwhile

    async def _start(self, replica: Replica) -> int | None:
        view = await replica.view()
        return retention_start(
            view.segments, high_watermark=view.high_watermark, config=replica.config, now_ms=self._env.wall_ms()
        )

"""How the process's file descriptors are shared out: connections leave a reserve, so that logs can always be opened.

Open logs take a quarter of the limit at most (`odradek.log.max.open.files`); the reserve is that quarter and some more
for what is open for a moment. The system gives the lowest free number to a new descriptor, so the number of an accepted
socket says how many there are without counting them.
"""

import resource
from collections.abc import Iterator
from typing import Final

from odradek.gateway.config import BrokerConfig

_LOG_SHARE: Final = 4
_MOMENTARY: Final = 32
_OWN: Final = 16
"""What a broker has open without connections and logs."""
_FILES_A_LOG: Final = 4
_COMFORTABLE: Final = 4096
_UNLIMITED: Final = 2**31 - 1


def _limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def first_reserved() -> int:
    """The lowest descriptor that no connection may have; by the limit as it is now."""
    return _first_reserved(_limit())


def _first_reserved(limit: int) -> int:
    return limit - limit // _LOG_SHARE - min(_MOMENTARY, limit // 8)


def shortcomings(config: BrokerConfig) -> Iterator[str]:
    """What the limit of open files does not allow, though the settings do; with what to do about it."""
    limit = _limit()
    connections = max(_first_reserved(limit) - _OWN, 0)
    if connections < config.max_connections and (config.max_connections != _UNLIMITED or limit < _COMFORTABLE):
        yield (
            f"at most {connections} connections can be open at once: the process may have {limit} open files; raise "
            f"ulimit -n (LimitNOFILE of a service), or lower max.connections ({config.max_connections})"
        )
    files = limit // _LOG_SHARE
    if files < config.log_max_open_files and (limit < _COMFORTABLE or "odradek.log.max.open.files" in _set(config)):
        yield (
            f"at most {files // _FILES_A_LOG} logs can be open at once, others are closed and opened in turns: the "
            f"process may have {limit} open files; raise ulimit -n (LimitNOFILE of a service), or lower "
            f"odradek.log.max.open.files ({config.log_max_open_files})"
        )


def _set(config: BrokerConfig) -> frozenset[str]:
    return frozenset(config.layers.static)

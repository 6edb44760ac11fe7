"""Divides the process's file descriptors: connections leave a reserve, so that logs can always be opened.

Open logs take at most a quarter of the limit (`odradek.log.max.open.files`). The reserve is that quarter plus some
descriptors for files that are open only briefly. The system gives the lowest free number to a new descriptor, so the
number of an accepted socket shows how many are in use without counting them. On Windows, where the number of a socket
says nothing, there is no limit to read either, and so no reserve.
"""

from collections.abc import Iterator
from typing import Final

from odradek.gateway.config import BrokerConfig
from odradek.gateway.net.open_files import UNLIMITED, open_files_limit

_LOG_SHARE: Final = 4
"""Open logs take at most the limit divided by this."""
_MOMENTARY: Final = 32
"""The descriptors reserved for files that are open only briefly, at most."""
_OWN: Final = 16
"""The number of descriptors that a broker uses besides connections and logs."""
_FILES_A_LOG: Final = 4
_COMFORTABLE: Final = 4096
"""Below this limit a warning is given even if the settings have their defaults."""


def first_reserved() -> int:
    """The lowest descriptor that no connection may use, by the current limit."""
    limit = open_files_limit()
    return limit if limit == UNLIMITED else _first_reserved(limit)


def _first_reserved(limit: int) -> int:
    return limit - limit // _LOG_SHARE - min(_MOMENTARY, limit // 8)


def limit_warnings(config: BrokerConfig) -> Iterator[str]:
    """Warnings about settings that the limit of open files makes impossible, with what to do about each."""
    limit = open_files_limit()
    connections = max(_first_reserved(limit) - _OWN, 0)
    if connections < config.max_connections and (config.max_connections != UNLIMITED or limit < _COMFORTABLE):
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

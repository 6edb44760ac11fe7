"""A process with members of one consumer group, which are all killed with it.

``python -m compat_tests.group_worker CLIENT BOOTSTRAP GROUP TOPIC SESSION_MS`` reads ``start NAME`` and ``close NAME``
from standard input and prints one JSON object a line. Client library warnings become ``{"log": ...}`` lines.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import threading
import traceback
from typing import Any

MODULES = {
    "kafka-python": "compat_tests.clients.kafka_python",
    "librdkafka": "compat_tests.clients.librdkafka",
    "librdkafka-848": "compat_tests.clients.librdkafka_848",
    "aiokafka": "compat_tests.clients.aiokafka_client",
}
_printing = threading.Lock()


def say(what: dict[str, Any]) -> None:
    """Prints one line atomically, and flushes."""
    with _printing:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say({"member": threading.current_thread().name, "log": record.getMessage()})


def _member(client: Any, name: str, arguments: list[str], stop: threading.Event) -> None:
    bootstrap, group, topic, session_ms = arguments

    def emit(what: dict[str, Any]) -> None:
        say({"member": name, **what})

    try:
        client.run_member(bootstrap, group, topic, int(session_ms), emit, stop)
    except BaseException:  # noqa: BLE001 - reported to the parent, which fails
        emit({"trouble": traceback.format_exc()})
    emit({"closed": True})


def main() -> None:
    """Executes commands until standard input ends."""
    client = importlib.import_module(MODULES[sys.argv[1]])
    logging.basicConfig(level=logging.INFO, handlers=[_Lines()], force=True)
    stops: dict[str, threading.Event] = {}
    for line in sys.stdin:
        command, name = line.split()
        if command == "start":
            stops[name] = threading.Event()
            work = (client, name, sys.argv[2:], stops[name])
            threading.Thread(target=_member, args=work, name=name, daemon=True).start()
        elif command == "close":
            stops[name].set()


if __name__ == "__main__":
    main()

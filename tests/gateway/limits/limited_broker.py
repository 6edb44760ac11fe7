"""`odradek serve` under resource limits, with checks of its log and its process."""

import resource
from pathlib import Path

from gateway_brokers import ProcessBroker

MB = 1 << 20


class LimitedBroker(ProcessBroker):
    """The broker, started with limits given as prlimit's options: `nofile=192`, `as_=1 << 30`.

    Leaving its block without an error fails if the event loop was held up.
    """

    def __init__(self, directory, *arguments, **limits):
        super().__init__(directory, *arguments, is_imported=True)
        self._limits = [f"--{name.rstrip('_')}={value}:{value}" for name, value in limits.items()]

    def command(self):
        return ["prlimit", *self._limits, *super().command()]

    def __exit__(self, error_type, *error):
        super().__exit__(error_type, *error)
        if error_type is None:
            assert lines_with(self, "the event loop was held up") == [], self.log()

    def open_files(self):
        return len(list(self._proc("fd").iterdir()))

    def address_space_bytes(self):
        [pages, *_] = self._proc("statm").read_text().split()
        return int(pages) * resource.getpagesize()

    def _proc(self, name):
        assert self.process is not None
        return Path(f"/proc/{self.process.pid}/{name}")


def lines_with(broker, *parts):
    return [line for line in broker.log().splitlines() if all(part in line for part in parts)]

"""The log of a table: files `_odradek/log/<n>.json`, of which each is created once, in order, by one writer.

Creating entry n is the one atomic step by which data counts. What it names lies in the step's staging folder by then
and is moved to its final name afterwards (`finish`). What a killed writer left undone is done when the table is opened
next.
"""

import socket
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.table.files import Files
from odradek.pipeline.table.manifest import Entry, Role, Table

HIDDEN: Final = "_odradek"
"""Spark reads nothing whose name begins with an underscore."""
LOG: Final = f"{HIDDEN}/log"
SNAPSHOTS: Final = f"{HIDDEN}/snapshots"
STAGING: Final = f"{HIDDEN}/staging"
SNAPSHOT_EVERY: Final = 50
"""Entries between two snapshots. A reader may begin at a snapshot, but the entries alone have everything, too."""
DEAD_LETTERS: Final = ".dead-letters"


class FencedError(PipelineError):
    """Another job of the same kind has taken over the table."""


class Log:
    """A table's log as one job sees it. `table` is what it says up to the last entry that was read."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.table = Table()

    @property
    def exists(self) -> bool:
        """Whether there is a table."""
        return bool(self.files.names(LOG))

    def load(self) -> Table:
        """Read what has been added since the last call, and finish what is unfinished; gives the table."""
        numbers = [int(name.removesuffix(".json")) for name in self.files.names(LOG)]
        if not numbers:
            raise PipelineError(f"{self.files.root} is no table of `odradek pipeline archive`")
        self._start_from_snapshot(numbers[-1])
        by_staging = {entry.staging: entry for entry in self._new_entries() if entry.staging}
        for staged in self.files.names(STAGING):
            if entry := by_staging.get(staged) or self._entry_of(staged):
                self.finish(entry)
        return self.table

    def create(self, settings: dict[str, Any], schema: dict[str, Any]) -> None:
        """Make the table with its entry 0; raises PipelineError where another job is quicker."""
        entry = Entry(0, "create", "archive", "", now_ms(), settings=settings, schema=schema)
        if not self.files.create(entry_name(0), entry.to_text()):
            raise FencedError(f"{self.files.root}: another job has just made this table")
        self.table.apply(entry)

    def claim(self, role: Role) -> "Writer":
        """Become the one writer of a role: every earlier one is fenced, as by a producer's epoch in Kafka.

        What such a writer has committed is finished; what it has only staged can never count any more and is deleted.
        """
        name = f"{socket.gethostname()}-{uuid.uuid1().hex}"
        entry = Entry(self.table.number + 1, "claim", role, name, now_ms())
        while not self.files.create(entry_name(entry.number), entry.to_text()):
            self._new_entries()
            entry = replace(entry, number=self.table.number + 1)
        self.table.apply(entry)
        for staged in self.files.names(STAGING):
            if committed := self._entry_of(staged):
                self.finish(committed)
            elif staged.startswith(f"{role}-"):
                self.files.delete(f"{STAGING}/{staged}")
        return Writer(self, role, name)

    def finish(self, entry: Entry) -> None:
        """Give files their final names and delete those that the entry removes. Doing it again changes nothing.

        Removed files go first: who reads the folder without the log sees a record once or, for a moment, not at all.
        """
        for path in entry.removed:
            self.files.delete(path)
        folder = f"{STAGING}/{entry.staging}"
        for target, source in self.moves(entry):
            self.files.move(f"{folder}/{source}", target)
        if entry.staging:
            self.files.delete(folder)

    def moves(self, entry: Entry) -> Iterable[tuple[str, str]]:
        """The final name of each file of an entry, and its name in the staging folder."""
        yield from ((file.path, f"data/{file.path}") for file in entry.files)
        dead = dead_letters_name(self.files.root)
        yield from ((f"../{dead}/{file.path}", f"dead-letters/{file.path}") for file in entry.dead_letters)

    def _entry_of(self, staged: str) -> Entry | None:
        """The entry that committed a staging folder, of those that were read before; None where none did.

        A folder's name ends with the number of the entry that its writer expected to make; it may be a later one.
        """
        first = int(staged.rpartition("-")[2])
        for number in range(first, self.table.number + 1):
            entry = self._read(number)
            if entry.staging == staged:
                return entry
        return None

    def _start_from_snapshot(self, last: int) -> None:
        if self.table.number >= 0 or last < SNAPSHOT_EVERY:
            return
        for name in reversed(self.files.names(SNAPSHOTS)):
            self.table = Table.from_text(self.files.read(f"{SNAPSHOTS}/{name}"))
            return

    def _new_entries(self) -> list[Entry]:
        found: list[Entry] = []
        while self.files.exists(entry_name(self.table.number + 1)):
            entry = self._read(self.table.number + 1)
            self.table.apply(entry)
            found.append(entry)
        return found

    def _read(self, number: int) -> Entry:
        try:
            return Entry.from_text(self.files.read(entry_name(number)))
        except ValueError as error:
            raise PipelineError(f"{self.files.root}/{entry_name(number)} cannot be read: {error}") from error

    def add(self, entry: Entry, check: Callable[[list[Entry]], None]) -> Entry:
        """Append the entry; gives it with its number. `check` may refuse, given what others have added meanwhile."""
        entry = replace(entry, number=self.table.number + 1)
        while not self.files.create(entry_name(entry.number), entry.to_text()):
            check(self._new_entries())
            entry = replace(entry, number=self.table.number + 1)
        self.table.apply(entry)
        if entry.number % SNAPSHOT_EVERY == 0:
            self._write_snapshot()
        return entry

    def _write_snapshot(self) -> None:
        self.files.create(f"{SNAPSHOTS}/{self.table.number:020}.json", self.table.to_text())
        for name in self.files.names(SNAPSHOTS)[:-2]:
            self.files.delete(f"{SNAPSHOTS}/{name}")


class Writer:
    """The holder of a role, until another one claims it."""

    def __init__(self, log: Log, role: Role, name: str) -> None:
        self.log, self.role, self.name = log, role, name

    def new_staging(self) -> str:
        """The name of a folder below STAGING for the next step."""
        return f"{self.role}-{uuid.uuid1().hex}-{self.log.table.number + 1}"

    def commit(self, entry: Entry) -> Entry:
        """Make the entry count, then finish it. Raises FencedError, and nothing has changed, for a job that was fenced.

        Its files have to be whole in the staging folder.
        """
        for _, source in self.log.moves(entry):
            self.log.files.sync(f"{STAGING}/{entry.staging}/{source}")
        try:
            added = self.log.add(replace(entry, role=self.role, writer=self.name, at_ms=now_ms()), self._refuse)
        except FencedError:
            self.log.files.delete(f"{STAGING}/{entry.staging}")
            raise
        self.log.finish(added)
        return added

    def discard(self, staging: str) -> None:
        """Delete what a failed step has staged."""
        self.log.files.delete(f"{STAGING}/{staging}")

    def _refuse(self, added: list[Entry]) -> None:
        """Refuse to go on behind an entry of the same role: the step was planned without it."""
        self.check()
        if any(entry.role == self.role for entry in added):
            raise PipelineError(f"{self.log.files.root}: an entry that seemed to have failed is there; plan again")

    def check(self) -> None:
        """Raise FencedError if another job has taken over the role, as far as the log has been read."""
        if self.log.table.writers[self.role] != self.name:
            raise FencedError(
                f"{self.log.files.root}: another `odradek pipeline {self.role}` has taken this table over"
            )


def dead_letters_name(root: str) -> str:
    """The folder of a table's dead letters, which stands beside the table's."""
    return f"{root.rstrip('/').rpartition('/')[2]}{DEAD_LETTERS}"


def entry_name(number: int) -> str:
    """The file of an entry."""
    return f"{LOG}/{number:020}.json"


def now_ms() -> int:
    """The wall clock, for people who read the log."""
    return round(datetime.now(UTC).timestamp() * 1000)  # noqa: TID251 - jobs have no Environment

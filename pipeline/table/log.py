"""The log of a table: files `_odradek/log/<n>.json`, each created once, in order, by one writer.

The atomic creation of entry n commits its data files. They are in the step's staging folder before, and are moved to
their final names afterwards (`finish`). After a crash of the writer, this is finished when the table is opened next.
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
"""Spark ignores files and folders whose names begin with an underscore."""
LOG: Final = f"{HIDDEN}/log"
SNAPSHOTS: Final = f"{HIDDEN}/snapshots"
STAGING: Final = f"{HIDDEN}/staging"
SNAPSHOT_EVERY: Final = 50
"""The number of entries between two snapshots. A reader may begin at a snapshot, but the log is complete
without snapshots.
"""
DEAD_LETTERS: Final = ".dead-letters"


class FencedError(PipelineError):
    """Another job of the same kind has taken over the table."""


class Log:
    """A job's view of a table's log. `table` is the state after the last entry read."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.table = Table()

    @property
    def exists(self) -> bool:
        """Return True if the table exists."""
        return bool(self.files.names(LOG))

    def load(self) -> Table:
        """Read the entries added since the last call, and finish committed steps; returns the table. Raises
        PipelineError if there is no table.
        """
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
        """Create the table with its entry 0; raises FencedError if another job has created it at the same time."""
        entry = Entry(0, "create", "archive", "", now_ms(), settings=settings, schema=schema)
        if not self.files.create(entry_name(0), entry.to_text()):
            raise FencedError(f"{self.files.root}: another job has just made this table")
        self.table.apply(entry)

    def claim(self, role: Role) -> "Writer":
        """Become the only writer of a role; earlier ones are fenced, as by a producer's epoch in Kafka.

        A step that an earlier writer has committed is finished; steps that are only staged can never be committed any
        more, and are deleted.
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
        """Move files to their final names and delete those that the entry removes. Idempotent.

        Removed files are deleted first, so that readers that ignore the log never read a record twice, but may miss it
        for a short time.
        """
        for path in entry.removed:
            self.files.delete(path)
        folder = f"{STAGING}/{entry.staging}"
        moves = list(self.moves(entry))
        for target, source in moves:
            self.files.move(f"{folder}/{source}", target)
        self.files.sync_names([target for target, _ in moves])
        if entry.staging:
            self.files.delete(folder)

    def moves(self, entry: Entry) -> Iterable[tuple[str, str]]:
        """Return the final name of each file of an entry, and its name in the staging folder."""
        yield from ((file.path, f"data/{file.path}") for file in entry.files)
        dead = dead_letters_name(self.files.root)
        yield from ((f"../{dead}/{file.path}", f"dead-letters/{file.path}") for file in entry.dead_letters)

    def _entry_of(self, staged: str) -> Entry | None:
        """Return the entry that committed a staging folder, of those already read; None if there is none.

        A folder's name ends with the number of the entry that its writer expected to create; the actual one may be
        higher.
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
        """Append the entry; returns it with its number. `check` is called after reading entries of others, and may
        raise.
        """
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
    """The writer of a role, until another job claims it."""

    def __init__(self, log: Log, role: Role, name: str) -> None:
        self.log, self.role, self.name = log, role, name

    def new_staging(self) -> str:
        """Return the name of a folder below STAGING for the next step."""
        return f"{self.role}-{uuid.uuid1().hex}-{self.log.table.number + 1}"

    def commit(self, entry: Entry) -> Entry:
        """Commit the entry, then finish it. The entry's files have to be complete in the staging folder.

        Raises FencedError if the job was fenced, and deletes the staging folder; PipelineError if an earlier commit of
        this writer that seemed to fail has succeeded. Then nothing was committed.
        """
        self.log.files.sync([f"{STAGING}/{entry.staging}/{source}" for _, source in self.log.moves(entry)])
        try:
            added = self.log.add(replace(entry, role=self.role, writer=self.name, at_ms=now_ms()), self._refuse)
        except FencedError:
            self.log.files.delete(f"{STAGING}/{entry.staging}")
            raise
        self.log.finish(added)
        return added

    def discard(self, staging: str) -> None:
        """Delete the staging folder of a failed step."""
        self.log.files.delete(f"{STAGING}/{staging}")

    def _refuse(self, added: list[Entry]) -> None:
        """Raise FencedError if another job has claimed the role, PipelineError for another new entry of the role.

        The step was planned without that entry, which may even be the step's own if its creation seemed to fail.
        """
        self.check()
        if any(entry.role == self.role for entry in added):
            raise PipelineError(f"{self.log.files.root}: an entry that seemed to have failed is there; plan again")

    def check(self) -> None:
        """Raise FencedError if another job has claimed the role in the entries read so far."""
        if self.log.table.writers[self.role] != self.name:
            raise FencedError(
                f"{self.log.files.root}: another `odradek pipeline {self.role}` has taken this table over"
            )


def dead_letters_name(root: str) -> str:
    """Return the folder of a table's dead letters, beside the table's."""
    return f"{root.rstrip('/').rpartition('/')[2]}{DEAD_LETTERS}"


def entry_name(number: int) -> str:
    """Return the file name of an entry."""
    return f"{LOG}/{number:020}.json"


def now_ms() -> int:
    """Return the wall-clock time, for information in the log only."""
    return round(datetime.now(UTC).timestamp() * 1000)  # noqa: TID251 - jobs have no Environment

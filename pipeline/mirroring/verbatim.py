"""Copies with the same offsets: sends the source's stored batches to an Odradek by ImportBatches.

    source ──Fetch, raw──► reader thread ──at most 2 answers──► this thread ──ImportBatches──► target

A copy always continues at the target's log end, also after a crash. Batches below the log end are refused, so a
repeated request does not duplicate anything. Markers and aborted batches are copied like all
others.
"""

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.gateway.cli.output import Meter
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.mirroring.batches import COMPACTED, RETENTION, Chunk, chunk_of, filler, rest_of, total
from odradek.pipeline.report import PartitionReport
from odradek.pipeline.retrying import Retries
from odradek.pipeline.topic_partition import EARLIEST, Offsets, TopicPartition
from odradek.pipeline.wire_client import RETRIABLE, BrokerError, Fetched, Imported, TopicGoneError, WireClient, check
from odradek.pipeline.wire_socket import ConnectionLostError, error_name
from odradek.wire.errors import ErrorCode

FETCH_BYTES: Final = 16 * 1024 * 1024
PARTITION_FETCH_BYTES: Final = 4 * 1024 * 1024
IMPORT_BYTES: Final = 8 * 1024 * 1024
ANSWERS_AHEAD: Final = 2
QUEUE_POLL_S: Final = 0.1

Chunks = dict[TopicPartition, Chunk]
Note = Callable[[str], None]


@dataclass(slots=True)
class Part:
    """The copy of one partition: the next offset to fetch, and the source's end when the pass began."""

    report: PartitionReport
    next_offset: int
    end_offset: int
    is_empty: bool = False
    """True if the target's log is empty: then its log start is set to the source's."""
    log_start: int = 0
    deleted: int = 0
    """The number of offsets that the source deleted before they were copied, not yet reported with a chunk."""

    @property
    def is_due(self) -> bool:
        """True if there are offsets to copy, or if the target is empty and its log start and end have to be set."""
        return self.end_offset > self.report.to_offset or (self.is_empty and self.end_offset > 0)

    @property
    def place(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.report.topic, self.report.partition)


@dataclass(slots=True)
class CopyPass:
    """The parts of a pass, and its result. `gone` are the topics deleted during the pass, with the message.
    `retry_limit_s` is the time after which retries at the target end; None: no limit.
    """

    parts: dict[TopicPartition, Part]
    stopping: Callable[[], bool]
    meter: Meter
    note: Note
    retry_limit_s: float | None
    gone: dict[str, str] = field(default_factory=dict[str, str])


class _Done:
    """The reader has read everything, or `error` ended it."""

    def __init__(self, error: PipelineError | None) -> None:
        self.error = error


class Reader:
    """Fetches a pass's partitions in a thread of its own. Iterating yields the fetched chunks, and raises the thread's
    error.
    """

    def __init__(self, connection: Connection, copied: CopyPass) -> None:
        self._connection = connection
        self._pass = copied
        self._waiting = {place: part for place, part in copied.parts.items() if part.next_offset < part.end_offset}
        self._queue: queue.Queue[Chunks | _Done] = queue.Queue(ANSWERS_AHEAD)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="odradek-mirror-reader", daemon=True)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def __iter__(self) -> "Reader":
        return self

    def __next__(self) -> Chunks:
        while not self._pass.stopping():
            try:
                read = self._queue.get(timeout=QUEUE_POLL_S)
            except queue.Empty:
                continue
            if isinstance(read, _Done):
                if read.error is not None:
                    raise read.error
                raise StopIteration
            return read
        raise StopIteration

    def _run(self) -> None:
        error: PipelineError | None = None
        try:
            with WireClient(self._connection) as client:
                while self._waiting and not self._is_over():
                    self._read(client)
        except PipelineError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - raised in the thread that iterates
            error = PipelineError(f"reading {self._connection.bootstrap}: {failure!r}")
        self._put(_Done(error))

    def _is_over(self) -> bool:
        return self._ended.is_set() or self._pass.stopping()

    def _put(self, read: Chunks | _Done) -> None:
        while not self._is_over():
            try:
                self._queue.put(read, timeout=QUEUE_POLL_S)
            except queue.Full:
                continue
            return

    def _read(self, client: WireClient) -> None:
        positions = {place: part.next_offset for place, part in self._waiting.items()}
        try:
            fetched = client.fetch(positions, max_bytes=FETCH_BYTES, partition_max_bytes=PARTITION_FETCH_BYTES)
        except TopicGoneError as error:
            self._drop(error)
            return
        chunks: Chunks = {}
        for place, one in fetched.items():
            chunk = self._take(client, place, one)
            if chunk is not None:
                chunks[place] = chunk
        if not chunks and all(one.error == 0 for one in fetched.values()):
            chunks = self._ends(fetched)
        self._advance(chunks)
        if chunks:
            self._put(chunks)

    def _drop(self, error: TopicGoneError) -> None:
        self._pass.gone[error.topic] = f"at the source: {error}"
        self._waiting = {place: part for place, part in self._waiting.items() if place.topic != error.topic}

    def _take(self, client: WireClient, place: TopicPartition, fetched: Fetched) -> Chunk | None:
        part = self._waiting[place]
        if fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._skip_deleted(client, part)
        check(fetched.error, f"{place.topic}-{place.partition} at the source")
        chunk = chunk_of(fetched.records, part.next_offset)
        return _counted(part, chunk) if chunk.end_offset > part.next_offset else None

    @staticmethod
    def _skip_deleted(client: WireClient, part: Part) -> Chunk | None:
        """Continue at the source's log start, after the source has deleted the next offset."""
        start = client.list_offsets([part.place], EARLIEST)[part.place]
        if start <= part.next_offset:
            name = f"{part.place.topic}-{part.place.partition}"
            raise PipelineError(
                f"{name} ends at the source before offset {part.next_offset}, up to which it was copied"
            )
        part.deleted += start - part.next_offset
        part.next_offset = part.log_start = start
        # if nothing is left to copy, an empty batch moves the target's log end
        return _counted(part, Chunk(start, start, memoryview(filler(start - 1)))) if start >= part.end_offset else None

    def _ends(self, fetched: Mapping[TopicPartition, Fetched]) -> Chunks:
        """Return empty batches for logs without records at their ends: they move the target's log end."""
        return {
            place: _counted(part, _tail(part.next_offset, part.end_offset))
            for place, part in self._waiting.items()
            if place in fetched and fetched[place].high_watermark >= part.end_offset > part.next_offset
        }

    def _advance(self, chunks: Chunks) -> None:
        for place, chunk in chunks.items():
            part = self._waiting.pop(place)
            part.next_offset = chunk.end_offset
            self._waiting[place] = part  # after the others, which are fetched first now
            if part.next_offset >= part.end_offset:
                del self._waiting[place]


def _tail(next_offset: int, end_offset: int) -> Chunk:
    skipped = Counter({COMPACTED: end_offset - next_offset} if end_offset > next_offset else {})
    return Chunk(next_offset, end_offset, memoryview(filler(end_offset - 1)), skipped=skipped)


def _counted(part: Part, chunk: Chunk) -> Chunk:
    if part.deleted:
        chunk.skipped[RETENTION] += part.deleted
        part.deleted = 0
    return chunk


def copy_pass(source: Connection, target: WireClient, copied: CopyPass) -> None:
    """Copy every partition of the pass up to its end, or until the job has to stop. Raises PipelineError; what was
    copied before is kept, and is in the reports.
    """
    ended = {place: part for place, part in copied.parts.items() if part.next_offset >= part.end_offset}
    for place, part in ended.items():
        _import(target, copied, {place: _tail(part.next_offset, part.end_offset)})
    with Reader(source, copied) as reader:
        for chunks in reader:
            for some in _in_requests(chunks):
                _import(target, copied, some)


def _in_requests(chunks: Chunks) -> Iterable[Chunks]:
    some: Chunks = {}
    size_bytes = 0
    for place, chunk in chunks.items():
        if some and size_bytes + len(chunk.data) > IMPORT_BYTES:
            yield some
            some, size_bytes = {}, 0
        some[place] = chunk
        size_bytes += len(chunk.data)
    if some:
        yield some


def _import(target: WireClient, copied: CopyPass, chunks: Chunks) -> None:
    """Send the chunks repeatedly until the target has stored them, or the job has to stop."""
    left, retries = dict(chunks), Retries(copied.retry_limit_s, copied.stopping)
    while left:
        before = total(left.values())
        problem = _attempt(target, copied, chunks, left)
        if total(left.values()) != before:
            retries.progress()
        if not left or problem is None:
            continue
        if copied.stopping():
            return
        if retries.is_over:
            raise PipelineError(f"the target takes nothing: {problem}")
        if retries.is_first:
            copied.note(f"the target takes nothing at the moment, trying again: {problem}")
        retries.wait()


def _attempt(target: WireClient, copied: CopyPass, chunks: Chunks, left: Chunks) -> str | None:
    """Send the chunks in `left` once and remove those that are stored; returns the cause if a retry may succeed."""
    try:
        answers = target.import_batches({place: chunk.data for place, chunk in left.items()})
    except TopicGoneError as error:
        copied.gone[error.topic] = f"at the target: {error}"
        for place in [place for place in left if place.topic == error.topic]:
            del left[place]
        return None
    except ConnectionLostError as error:
        return str(error)
    except BrokerError as error:
        if error.code not in RETRIABLE:
            raise
        return str(error)
    problem: str | None = None
    for place, answer in answers.items():
        if answer.error in RETRIABLE:
            problem = f"{place.topic}-{place.partition}: {error_name(answer.error)}"
            continue
        rest = _left_of(place, left[place], answer)
        if rest is None:
            del left[place]
            _account(target, copied, copied.parts[place], chunks[place])
        else:
            left[place] = rest
    return problem


def _left_of(place: TopicPartition, chunk: Chunk, answer: Imported) -> Chunk | None:
    """Return the part of the chunk that is still to be sent, None if all of it is stored.

    Raises BrokerError for a refusal, PipelineError if other producers write there.
    """
    if not answer.error:
        return None
    name = f"{place.topic}-{place.partition}"
    if answer.error != ErrorCode.OFFSET_OUT_OF_RANGE:
        why = answer.message or error_name(answer.error)
        raise BrokerError(answer.error, f"the target refuses {name}: {why}")
    try:
        return rest_of(chunk, answer.log_end_offset)
    except PipelineError as error:
        raise PipelineError(f"{name}: {error}") from error


def _account(target: WireClient, copied: CopyPass, part: Part, chunk: Chunk) -> None:
    report = part.report
    if part.is_empty:
        part.is_empty = False
        _begin_log(target, part)
    report.read += chunk.records
    report.written += chunk.records
    report.skipped.update(chunk.skipped)
    report.to_offset = chunk.end_offset
    copied.meter.advance(*total([chunk]))


def _begin_log(target: WireClient, part: Part) -> None:
    """Set the target's log start to the source's, so that `earliest` is the same offset."""
    if part.log_start > 0:
        try:
            target.delete_records({part.place: part.log_start})
        except BrokerError as error:
            if error.code != ErrorCode.POLICY_VIOLATION:  # refused for a topic whose cleanup.policy is only compact
                raise


def ends_of(parts: Iterable[Part]) -> Offsets:
    """Return the target's end of each partition."""
    return {part.place: part.report.to_offset for part in parts}

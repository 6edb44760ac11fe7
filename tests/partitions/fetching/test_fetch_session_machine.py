"""Readers with sessions under random commands: each has the same data as after a full fetch."""

from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.partitions.fetching.sessions import (
    EVICTION_MS,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSessions,
    Wanted,
)
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from odradek.wire.schema.types import ZERO_UUID

SLOTS = 2
NAMES = ("a", "b")
MAX_WANTED = 6
BY_NAME, BY_ID = 12, 13
PARTITIONS = 2
partitions = st.tuples(st.sampled_from(NAMES), st.integers(0, PARTITIONS))
READERS = 3
readers = st.integers(0, READERS - 1)
fates = st.sampled_from(("arrives", "arrives", "arrives", "arrives", "request lost", "answer lost"))


@dataclass
class Log:
    start: int = 0
    end: int = 0


@dataclass
class Reader:
    """A client that follows the protocol, over a network that may lose messages."""

    by_id: bool
    session_id: int = NO_SESSION
    epoch: int = INITIAL_EPOCH
    wanted: dict[tuple[UUID | str, int], int] = field(default_factory=dict)
    """Partition to fetch offset."""
    sent: dict[tuple[UUID | str, int], int] = field(default_factory=dict)
    """Partition to the fetch offset that the broker received last."""
    received: dict[tuple[UUID | str, int], tuple[int, int]] = field(default_factory=dict)
    """Partition to the received (high watermark, log start offset); absent when the last answer was an error."""

    def restart(self) -> None:
        self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH

    def has_sent(self, wanted: dict[tuple[UUID | str, int], int]) -> None:
        """Called when the broker has handled the request: its session now has exactly these partitions."""
        self.sent = wanted
        self.received = {partition: received for partition, received in self.received.items() if partition in wanted}

    def named(self, partition: tuple[UUID | str, int]) -> FetchTopic:
        part = FetchPartition(partition=partition[1], fetch_offset=self.wanted[partition], partition_max_bytes=1)
        names = {"topic_id": partition[0]} if self.by_id else {"topic": partition[0]}
        return FetchTopic(**names, partitions=(part,))

    def request(self) -> FetchRequest:
        full = self.epoch in (INITIAL_EPOCH, FINAL_EPOCH)
        changed = [partition for partition, offset in self.wanted.items() if full or self.sent.get(partition) != offset]
        gone = [] if full else [partition for partition in self.sent if partition not in self.wanted]
        forgotten = [
            ForgottenTopic(**({"topic_id": topic} if self.by_id else {"topic": topic}), partitions=(index,))
            for topic, index in gone
        ]
        return FetchRequest(
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=tuple([self.named(partition) for partition in changed]),
            forgotten_topics_data=tuple(forgotten),
        )


class SessionMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.now_ms = 0
        self.ids = iter(range(1, 1_000_000))
        self.sessions = FetchSessions(SLOTS, lambda: next(self.ids), MAX_WANTED)
        self.uuids = iter(UUID(int=n) for n in range(1, 1_000_000))
        self.topics: dict[str, UUID] = {}
        self.logs: dict[tuple[UUID, int], Log] = {}
        for name in NAMES:
            self._create(name)
        self.readers = [Reader(by_id=number % 2 == 0) for number in range(READERS)]
        for number in range(READERS):
            for name in NAMES:
                self.want(number, (name, 0))
        self.epochs: dict[int, int] = {}

    # The broker's partitions

    def _create(self, name: str) -> None:
        self.topics[name] = next(self.uuids)
        for index in range(PARTITIONS):
            self.logs[self.topics[name], index] = Log()

    @rule(name=st.sampled_from(NAMES))
    def create_or_delete(self, name: str) -> None:
        if name in self.topics:
            del self.topics[name]
        else:
            self._create(name)

    @rule(partition=partitions, count=st.integers(1, 3))
    def append(self, partition: tuple[str, int], count: int) -> None:
        log = self._log(*partition)
        if log is not None:
            log.end += count

    @rule(partition=partitions)
    def drop(self, partition: tuple[str, int]) -> None:
        log = self._log(*partition)
        if log is not None:
            log.start = log.end

    def _log(self, name: str, index: int) -> Log | None:
        return self.logs.get((self.topics.get(name, ZERO_UUID), index))

    def _name_of(self, topic_id: UUID) -> str | None:
        return next((name for name, known in self.topics.items() if known == topic_id), None)

    def _read(self, wanted: Wanted) -> PartitionData:
        """Reads one partition. A record is one byte, and each partition returns at most one record."""
        index, offset = wanted.asked.partition, wanted.asked.fetch_offset
        log = None if wanted.topic is None else self._log(wanted.topic, index)
        if wanted.topic is None:
            return _error(index, ErrorCode.UNKNOWN_TOPIC_ID)
        if log is None:
            return _error(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if wanted.topic_id not in (ZERO_UUID, self.topics[wanted.topic]):
            return _error(index, ErrorCode.INCONSISTENT_TOPIC_ID)
        if not log.start <= offset <= log.end:
            return _error(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        records = () if offset == log.end else (memoryview(b"r"),)
        return PartitionData(partition_index=index, high_watermark=log.end, log_start_offset=log.start, records=records)

    def _serve(self, request: FetchRequest, by_id: bool, budget: int = MAX_WANTED) -> FetchResponse:
        fetch = self.sessions.open(request, BY_ID if by_id else BY_NAME, self._name_of, self.now_ms)
        answers = []
        for wanted in fetch.wanted:
            data = self._read(wanted)
            if data.records:
                data = data if budget > 0 else _without_records(data)
                budget -= 1
            answers.append((wanted, data))
        answer = fetch.answer(answers, self.now_ms)
        if answer.session_id:
            self.epochs[answer.session_id] = request.session_epoch + 1
        return answer

    # The readers

    @rule(number=readers, partition=partitions)
    def want(self, number: int, partition: tuple[str, int]) -> None:
        reader = self.readers[number]
        topic = self.topics.get(partition[0]) if reader.by_id else partition[0]
        if topic is not None and len(reader.wanted) < MAX_WANTED:
            reader.wanted.setdefault((topic, partition[1]), 0)

    @rule(number=readers, which=st.integers(0, MAX_WANTED))
    def want_no_more(self, number: int, which: int) -> None:
        reader = self.readers[number]
        for partition in list(reader.wanted)[which : which + 1]:
            del reader.wanted[partition]

    @rule(number=readers)
    def end_the_session(self, number: int) -> None:
        """Closes the session as a closing reader does; the next fetch creates another."""
        reader = self.readers[number]
        answer = self._serve(FetchRequest(session_id=reader.session_id, session_epoch=FINAL_EPOCH), reader.by_id)
        assert (answer.error_code, answer.session_id) == (0, NO_SESSION)
        assert reader.session_id not in self.sessions
        reader.restart()

    @rule(ms=st.sampled_from((1, 1000, EVICTION_MS // 2, EVICTION_MS + 1)))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @rule(fate=st.lists(fates, min_size=READERS, max_size=READERS))
    def fetch(self, fate: list[str]) -> None:
        """One fetch by each reader in turn."""
        for reader, happens in zip(self.readers, fate, strict=True):
            if happens != "request lost":
                request, before = reader.request(), dict(reader.wanted)
                answer = self._serve(request, reader.by_id)
                if happens != "answer lost":
                    self._take(reader, request, answer, before)

    def _take(
        self, reader: Reader, request: FetchRequest, answer: FetchResponse, before: dict[tuple[UUID | str, int], int]
    ) -> None:
        if answer.error_code:
            assert request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH), "a full fetch is never refused"
            assert answer.responses == ()
            reader.restart()
            return
        got = _by_partition(answer, reader.by_id)
        if request.session_epoch == INITIAL_EPOCH:
            assert set(got) == set(before), "a full fetch is answered in full"
        reader.session_id = answer.session_id
        reader.epoch = INITIAL_EPOCH if not answer.session_id else reader.epoch + 1
        reader.has_sent(before)
        for partition, data in got.items():
            earlier = reader.received.pop(partition, None)
            if data.error_code:
                self._reset(reader, partition)
                continue
            reader.received[partition] = (data.high_watermark, data.log_start_offset)
            reader.wanted[partition] += len(data.records or ())
            if request.session_epoch != INITIAL_EPOCH:
                assert data.records or reader.received[partition] != earlier, "nothing has changed"
        self._compare(reader, before, got)

    def _reset(self, reader: Reader, partition: tuple[UUID | str, int]) -> None:
        """Sets the fetch offset to the end of the log, as a client does after OFFSET_OUT_OF_RANGE."""
        name = partition[0] if isinstance(partition[0], str) else self._name_of(partition[0])
        log = None if name is None else self._log(name, partition[1])
        if log is not None:
            reader.wanted[partition] = log.end

    def _compare(
        self,
        reader: Reader,
        before: dict[tuple[UUID | str, int], int],
        got: dict[tuple[UUID | str, int], PartitionData],
    ) -> None:
        """Compares what the reader has with the answer to a full fetch of the same partitions."""
        sessionless = Reader(reader.by_id, epoch=FINAL_EPOCH, wanted=before)
        full = _by_partition(self._serve(sessionless.request(), reader.by_id), reader.by_id)
        assert set(full) == set(before)
        for partition, data in full.items():
            if data.error_code:
                assert got[partition].error_code, "an error is returned every time"
                continue
            assert reader.received[partition] == (data.high_watermark, data.log_start_offset)
            assert len(data.records or ()) == len(got[partition].records or () if partition in got else ())
        assert set(got) <= set(full)

    @precondition(lambda self: any(reader.session_id for reader in self.readers))
    @rule(number=readers)
    def every_partition_is_served_in_turn(self, number: int) -> None:
        """When an answer has room for one partition only, as many fetches as there are partitions return all."""
        reader = self.readers[number]
        if not reader.session_id or reader.session_id not in self.sessions:
            return
        for log in self.logs.values():
            log.end += 1
        with_records, rounds = set(), len(reader.wanted)
        for round_number in range(rounds):
            request, before = reader.request(), dict(reader.wanted)
            if round_number == 0:
                with_records = self._with_records(reader)
            answer = self._serve(request, reader.by_id, budget=1)
            if answer.error_code or not answer.session_id:
                reader.restart()
                return
            reader.epoch += 1
            reader.has_sent(before)
            for partition, data in _by_partition(answer, reader.by_id).items():
                reader.received.pop(partition, None)
                if not data.error_code:
                    reader.received[partition] = (data.high_watermark, data.log_start_offset)
                if data.records:
                    with_records.discard(partition)
        assert with_records == set()

    def _with_records(self, reader: Reader) -> set[tuple[UUID | str, int]]:
        sessionless = Reader(reader.by_id, epoch=FINAL_EPOCH, wanted=dict(reader.wanted))
        full = _by_partition(self._serve(sessionless.request(), reader.by_id), reader.by_id)
        return {partition for partition, data in full.items() if data.records}

    @rule(number=readers, epoch=st.integers(1, 9), session_id=st.integers(-1, 40))
    def wrong_epochs_are_refused(self, number: int, epoch: int, session_id: int) -> None:
        """A request with a wrong epoch returns nothing and changes nothing."""
        if self.epochs.get(session_id) == epoch:
            return
        answer = self._serve(FetchRequest(session_id=session_id, session_epoch=epoch), number % 2 == 0)
        known = session_id in self.sessions
        assert answer.error_code == (ErrorCode.INVALID_FETCH_SESSION_EPOCH if known else _NOT_FOUND)
        assert answer.session_id == NO_SESSION

    @invariant()
    def there_are_no_more_than_slots(self) -> None:
        if hasattr(self, "sessions"):
            assert len(self.sessions) <= SLOTS


_NOT_FOUND = ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def _error(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=error, high_watermark=-1, records=())


def _without_records(data: PartitionData) -> PartitionData:
    return PartitionData(
        partition_index=data.partition_index,
        high_watermark=data.high_watermark,
        log_start_offset=data.log_start_offset,
        records=(),
    )


def _by_partition(answer: FetchResponse, by_id: bool) -> dict[tuple[UUID | str, int], PartitionData]:
    return {
        (topic.topic_id if by_id else topic.topic, part.partition_index): part
        for topic in answer.responses
        for part in topic.partitions
    }


TestFetchSessions = SessionMachine.TestCase
TestFetchSessions.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

"""The language of `scripts/*.txt`: commands to one shard, and its decisions as text.

A producer uses the producer id and epoch that it received last, as real ones do; `pid=` and `epoch=` override them.
"""

import shlex
from dataclasses import dataclass

from transaction_world import World

from odradek.coordinator.regex import InvalidRegex, Matcher
from odradek.coordinator.transactions.add import ProducerIdentity
from odradek.coordinator.transactions.config import TransactionConfig
from odradek.coordinator.transactions.describe import Filters, matching
from odradek.coordinator.transactions.end import Ended
from odradek.coordinator.transactions.init import NeedsProducerId
from odradek.coordinator.transactions.records import decode_id, decode_transaction
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

CONFIG = {"transaction_remove_expired_transaction_cleanup_interval_ms": 10**9}


@dataclass
class Producer:
    name: str
    id: str = "t"
    pid: int = -1
    epoch: int = -1

    def identity(self):
        return ProducerIdentity(self.id, self.pid, self.epoch)


class Script:
    """Runs the blocks of one file; each command is a method `do_...`."""

    def __init__(self):
        self.world = World(TransactionConfig(**CONFIG))
        self.version = 0
        self.producers: dict[str, Producer] = {}
        self.next_pid = 100

    def run(self, commands):
        lines = []
        for command in commands:
            words = shlex.split(command, comments=True)
            if words:
                names = [word for word in words[1:] if "=" not in word]
                options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
                lines += getattr(self, "do_" + words[0].replace("-", "_"))(names, options)
        return lines or ["nothing"]

    # Plumbing

    def producer(self, name, options):
        producer = self.producers.setdefault(name, Producer(name))
        producer.id = options.get("id", producer.id)
        producer.pid = int(options.get("pid", producer.pid))
        producer.epoch = int(options.get("epoch", producer.epoch))
        return producer

    def call(self, asker, operation, *arguments):
        outcome = operation(*arguments, self.world.token(), self.world.now_ms)
        records, (reply,) = self.world.apply(outcome)
        return [*map(show_record, records), f"{asker} <- {show(reply.value)}"], reply.value

    def later(self, steps):
        return [f"at {self.world.now_ms}: {show_record(record)}" for records, _ in steps for record in records]

    # Commands

    def do_config(self, _, options):
        self.world = World(TransactionConfig(**CONFIG | {key: int(value) for key, value in options.items()}))
        return ["ok"]

    def do_version(self, words, options):
        """Sets the producers' transaction version; `level=` sets the cluster's finalized one if it differs."""
        self.version = int(words[0])
        self.world.level = int(options.get("level", self.version))
        return ["ok"]

    def do_init(self, names, options):
        producer = self.producer(names[0], options)
        claimed = "claim" in names
        request = InitProducerIdRequest(
            transactional_id=producer.id,
            transaction_timeout_ms=int(options.get("timeout", 60_000)),
            producer_id=producer.pid if claimed else -1,
            producer_epoch=producer.epoch if claimed else -1,
        )
        lines, reply = self.call(producer.name, self.world.shard.init_producer_id, request, None)
        if isinstance(reply, NeedsProducerId):
            self.next_pid += 1
            more, reply = self.call(producer.name, self.world.shard.init_producer_id, request, self.next_pid)
            lines += more
        assert isinstance(reply, InitProducerIdResponse)
        if not reply.error_code:
            producer.pid, producer.epoch = reply.producer_id, reply.producer_epoch
        return lines

    def do_add(self, names, options):
        producer = self.producer(names[0], options)
        operation = self.world.shard.add_partitions
        return self.call(producer.name, operation, producer.identity(), partitions_of(names[1:]), self.version)[0]

    def do_verify(self, names, options):
        producer = self.producer(names[0], options)
        errors = self.world.shard.verify(producer.identity(), partitions_of(names[1:]))
        shown = " ".join(f"{topic}:{index}={error.name}" for (topic, index), error in errors.items())
        return [f"{producer.name} <- {shown}"]

    def do_commit(self, names, options):
        return self.end(names, options, True)

    def do_abort(self, names, options):
        return self.end(names, options, False)

    def end(self, names, options, committed):
        producer = self.producer(names[0], options)
        operation, asked = self.world.shard.end_transaction, (producer.identity(), committed, self.version)
        lines, reply = self.call(producer.name, operation, *asked, None)
        if isinstance(reply, NeedsProducerId):
            self.next_pid += 1
            more, reply = self.call(producer.name, operation, *asked, self.next_pid)
            lines += more
        if not reply.error and reply.producer_id >= 0 and "lost" not in names:
            producer.pid, producer.epoch = reply.producer_id, reply.producer_epoch
        return lines

    def do_finish(self, _, __):
        return self.later(self.world.finish())

    def do_advance(self, words, _):
        return self.later(self.world.advance(int(words[0])))

    def do_restart(self, _, __):
        self.world.restart()
        return ["restarted", *(f"to finish: {one.transactional_id} {one.state.label}" for one in self.world.decided)]

    def do_epoch(self, words, _):
        """Sets an id's epoch, which otherwise would take tens of thousands of producers."""
        from dataclasses import replace

        from odradek.coordinator.contract import Outcome
        from odradek.coordinator.transactions.records import transaction_record

        held = self.world.shard.table.transactions[words[0]]
        self.world.apply(Outcome([transaction_record(replace(held, producer_epoch=int(words[1])), self.world.level)]))
        return ["ok"]

    def do_describe(self, names, _):
        return self.call("admin", self.world.shard.describe_transaction, names[0])[0]

    def do_list(self, _, options):
        request = ListTransactionsRequest(
            state_filters=tuple(filter(None, options.get("states", "").split(","))),
            producer_id_filters=tuple(map(int, filter(None, options.get("pids", "").split(",")))),
            duration_filter=int(options.get("longer", -1)),
        )
        lines, reply = self.call("admin", self.world.shard.list_transactions, Filters.of(request))
        if "pattern" not in options:
            return lines
        try:
            found = matching(Matcher(options["pattern"]), reply.transaction_states)
        except InvalidRegex as error:
            return [f"no pattern: {error}"]
        return [f"matching: {[one.transactional_id for one in found]}"]


def partitions_of(words):
    """`a:0+1 b:2` as topics and partitions."""
    return {word.split(":")[0]: frozenset(map(int, word.split(":")[1].split("+"))) for word in words}


def show_record(record):
    name = decode_id(record.key)
    if record.value is None:
        return f"write {name} tombstone"
    one = decode_transaction(name, record.value)
    where = " ".join(f"{topic}:{'+'.join(map(str, sorted(indexes)))}" for topic, indexes in one.partitions.items())
    head = f"write {name} {one.state.label} pid={one.producer_id} epoch={one.producer_epoch} timeout={one.timeout_ms}"
    rotation = f" next={one.next_producer_id}" if one.next_producer_id >= 0 else ""
    rotated = f" previous={one.previous_producer_id}" if one.previous_producer_id not in (-1, one.producer_id) else ""
    followed = f" version={one.version}" if one.version else ""
    return f"{head} start={one.start_ms} updated={one.updated_ms} [{where}]{followed}{rotation}{rotated}"


def show(value):
    if isinstance(value, InitProducerIdResponse):
        error = ErrorCode(value.error_code).name
        return error if value.error_code else f"pid={value.producer_id} epoch={value.producer_epoch}"
    if isinstance(value, ListTransactionsResponse):
        listed = [
            f"{one.transactional_id} {one.producer_id} {one.transaction_state}" for one in value.transaction_states
        ]
        return f"{listed} unknown={list(value.unknown_state_filters)}"
    if isinstance(value, Ended) and not value.error and value.producer_id >= 0:
        return f"pid={value.producer_id} epoch={value.producer_epoch}"
    if isinstance(value, Ended):
        return value.error.name
    if isinstance(value, ErrorCode):
        return value.name
    return str(value)

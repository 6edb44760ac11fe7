"""What a group shard's operations get about the client of a request, and the decisions that they collect."""

from collections.abc import Iterable
from dataclasses import field

from odradek.coordinator.contract import Outcome, Producer, Reply, ShardRecord, Token
from odradek.wire.values import immutable, mutable


@immutable
class ClientInfo:
    """The client that sent a request, as known to its connection.

    `new_member_id` is a new UUID as text: a member that needs an id gets its client id (or, if static, its group
    instance id), a hyphen and this. `client_host` is in Kafka's form, "/127.0.0.1".
    """

    api_version: int
    client_id: str
    client_host: str
    new_member_id: str


@mutable
class Decision:
    """The decisions of an operation at `now_ms` so far; with a `producer` they are in its transaction.

    `batch` and `about` are as in `Outcome`.
    """

    now_ms: int
    records: list[ShardRecord] = field(default_factory=list[ShardRecord])
    replies: list[Reply] = field(default_factory=list[Reply])
    producer: Producer | None = None
    batch: bytes | None = None
    about: str = ""

    def record(self, record: ShardRecord) -> None:
        """Write `record`."""
        self.records.append(record)

    def write(self, records: Iterable[ShardRecord]) -> None:
        """Write `records`, in this order."""
        self.records.extend(records)

    def adopt(self, attempt: "Decision") -> None:
        """Append the decisions of `attempt` to these."""
        self.records += attempt.records
        self.replies += attempt.replies

    def reply(self, token: Token, value: object) -> None:
        """Send `value` to the request of `token`, once the records are committed."""
        self.replies.append(Reply(token, value))

    def outcome(self) -> Outcome:
        """Returns the decisions for the runtime."""
        return Outcome(self.records, self.replies, self.producer, self.batch, about=self.about)

"""The options for parsing keys or values."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Kind = Literal["json", "avro", "protobuf"]
KINDS: Final[tuple[Kind, ...]] = ("json", "avro", "protobuf")
Framing = Literal["none", "confluent"]
INFERRED: Final = "inferred"


@dataclass(frozen=True, slots=True)
class Parsing:
    """How keys or values are parsed.

    `schema` is a file: for JSON Spark's DDL or its JSON form, for Avro an .avsc, for Protobuf a FileDescriptorSet or a
    .proto, with `#message.Name` if it has several. None, for JSON only: the fields are inferred from the records. With
    `framing` "confluent" each begins with the id of a schema in a Confluent registry, which is skipped.
    """

    kind: Kind
    schema: str | None = None
    framing: Framing = "none"

    def read_schema(self) -> bytes:
        """Return the content of the schema's file."""
        assert self.schema is not None
        return Path(self.schema.partition("#")[0]).read_bytes()

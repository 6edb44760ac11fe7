"""The common base of the decoder's and the encoder's source generators: lines, names, and properties of the version."""

from __future__ import annotations

from typing import Any

from odradek.wire.schema.schema import FieldSpec, MessageInfo, Struct
from odradek.wire.schema.types import WireType

_FIXED_SIZES = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "q": 8, "d": 8, "16s": 16}


class SourceWriter:
    """Collects the lines of one generated function and the objects that it refers to.

    The function is for ``version`` of the message that ``info`` describes.
    """

    def __init__(self, info: MessageInfo, version: int) -> None:
        self.version = version
        self.flexible = version in info.flexible
        self.names: dict[str, Any] = {}
        self._info = info
        self._lines: list[str] = []
        self._depth = 1
        self._serial = 0

    def emit(self, line: str) -> None:
        """Add a line at the current depth."""
        self._lines.append("    " * self._depth + line)

    def indent(self, opening: str) -> None:
        """Add a line such as ``if x:`` and increase the indentation."""
        self.emit(opening)
        self._depth += 1

    def dedent(self) -> None:
        """End the innermost block."""
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """Return a new variable name."""
        self._serial += 1
        return f"{prefix}{self._serial}"

    def constant(self, prefix: str, value: object) -> str:
        """Add ``value`` to the generated function's globals; return its name there."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def literal(self, value: object) -> str:
        """Return the source for a field's default."""
        if value is None or isinstance(value, bool | int | float | str | bytes) or value == ():
            return repr(value)
        return self.constant("DEFAULT_", value)

    def source(self, signature: str) -> str:
        """Return the source of the function."""
        return "\n".join([f"def {signature}:", *self._lines, ""])

    def inline_fields(self, struct: type[Struct]) -> list[FieldSpec]:
        """Return the fields that are not tagged in this version, in order."""
        return [spec for spec in struct.__fields__ if self._present(spec) and not self._tagged(spec)]

    def tagged_fields(self, struct: type[Struct]) -> list[FieldSpec]:
        """Return the tagged fields of this version, by tag."""
        found = [spec for spec in struct.__fields__ if self._present(spec) and self._tagged(spec)]
        return sorted(found, key=lambda spec: spec.tag or 0)

    def absent_fields(self, struct: type[Struct]) -> list[FieldSpec]:
        """Return the fields that this version does not have."""
        return [spec for spec in struct.__fields__ if not self._present(spec)]

    def nullable(self, spec: FieldSpec) -> bool:
        """True if the field may be null in this version."""
        return self.version in spec.nullable

    def compact(self, spec: FieldSpec) -> bool:
        """True if the field's lengths are unsigned varints in this version."""
        return self.version in (spec.flexible or self._info.flexible)

    def min_size(self, kind: WireType[Any]) -> int:
        """Return the smallest size of a value of ``kind`` in bytes, at least 1."""
        if kind.code is not None:
            return _FIXED_SIZES[kind.code]
        if kind.struct is not None:
            fields = self.inline_fields(kind.struct)
            sizes = [1 if self._nullable_struct(spec) else self.min_size(spec.type) for spec in fields]
            return max(1, sum(sizes) + self.flexible)
        if self.flexible:
            return 1
        return 2 if kind.name == "string" else 4

    def _nullable_struct(self, spec: FieldSpec) -> bool:
        return spec.type.struct is not None and self.nullable(spec)

    def _present(self, spec: FieldSpec) -> bool:
        return self.version in spec.versions

    def _tagged(self, spec: FieldSpec) -> bool:
        return self.version in spec.tagged

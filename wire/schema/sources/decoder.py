"""Generates the source that decodes one version of one message in straight-line Python.

Fixed-width fields that follow each other, with the length or count byte after them, are read by one ``struct`` call;
nested structs and arrays are decoded inline.  These checks protect against hostile input: ``unpack_from`` and indexing
refuse to read past the end, every slice is checked against the end of the input first, and an array's count is checked
against the fewest bytes its elements can take, and in a request against
:data:`odradek.wire.schema.runtime.MAX_REQUEST_ELEMENTS`.
"""

from __future__ import annotations

import struct
from typing import Any

from odradek.wire.schema import runtime
from odradek.wire.schema.schema import FieldSpec, Message, Struct
from odradek.wire.schema.sources.writer import SourceWriter
from odradek.wire.schema.types import WireType


class DecoderSource(SourceWriter):
    """Generates ``decode(buf, pos) -> (message, end)`` for one version; see :func:`decoder_source`."""

    def __init__(self, message: type[Message], version: int) -> None:
        super().__init__(message.__message__, version)
        self.names |= {
            "IndexError_": (struct.error, IndexError),
            "unpack_from": struct.unpack_from,
            "DecodeError": runtime.DecodeError,
            "read_uvarint": runtime.read_uvarint,
            "read_uuid": runtime.read_uuid,
            "read_long_text": runtime.read_long_text,
            "read_tagged_fields": runtime.read_tagged_fields,
            "refuse_null": runtime.refuse_null,
            "refuse_length": runtime.refuse_length,
            "refuse_count": runtime.refuse_count,
            "refuse_tag_size": runtime.refuse_tag_size,
            "refuse_elements": runtime.refuse_elements,
        }
        # The number of elements is limited for requests: decoded objects are many times as large as the few bytes that
        # encode them, and any client that can connect can send a request.
        self._limited = message.__message__.kind == "request"
        self._run: list[tuple[str, str]] = []

    def write(self, message: type[Message]) -> str:
        """Return the source of the whole function."""
        self.emit("limit = len(buf)")
        if self._limited:
            self.emit(f"budget = {runtime.MAX_REQUEST_ELEMENTS}")
        self.indent("try:")
        self.emit(f"return {self.struct(message)}, pos")
        self.dedent()
        self.indent("except IndexError_:")
        text = f"{message.__name__} version {self.version} ends too early"
        self.emit(f"raise DecodeError({text!r}) from None")
        return self.source("decode(buf, pos)")

    def struct(self, cls: type[Struct]) -> str:
        """Emit code that reads a struct into a new variable; return its name."""
        built = self.fresh("o")
        self.emit(f"{built} = {self.constant('Builder_', cls.__builder__)}()")
        for spec in [*self.absent_fields(cls), *self.tagged_fields(cls)]:
            self.emit(f"{built}.{spec.name} = {self.literal(spec.default)}")
        for spec in self.inline_fields(cls):
            self.value(spec, spec.type, f"{built}.{spec.name}", f"{cls.__name__}.{spec.name}")
        self._tagged_section(cls, built)
        self.emit(f"{built}.__class__ = {self.constant('Class_', cls)}")
        return built

    def value(self, spec: FieldSpec, kind: WireType[Any], target: str, label: str) -> None:
        """Emit code that reads a value of ``kind`` into ``target``; ``label`` names it in errors."""
        if kind.code is not None:
            self._run.append((kind.code, target))
        elif kind.struct is not None:
            self._struct_field(spec, kind.struct, target)
        else:
            self._sized(spec, kind, target, label)

    def _struct_field(self, spec: FieldSpec, cls: type[Struct], target: str) -> None:
        # A nullable struct is preceded by a presence byte (KIP-893), also inside a tagged field, where 0 means null.
        if not (self.nullable(spec) and spec.type.struct is cls):
            self.emit(f"{target} = {self.struct(cls)}")
            return
        present = self.fresh("n")
        self._run.append(("b", present))
        self._flush()
        self.indent(f"if {present} {'<' if spec.tag is None else '<='} 0:")
        self.emit(f"{target} = None")
        self.dedent()
        self.indent("else:")
        self.emit(f"{target} = {self.struct(cls)}")
        self.dedent()

    def _sized(self, spec: FieldSpec, kind: WireType[Any], target: str, label: str) -> None:
        """Emit code that reads a string, bytes, records or an array: a length, then the content."""
        length = self._length(spec, kind)
        # A compact length is one more than the actual length; 0 means null.
        self.indent(f"if {length} {'== 0' if self.compact(spec) else '< 0'}:")
        nullable = self.nullable(spec) and kind is spec.type
        self.emit(f"{target} = None" if nullable else f"refuse_null({label!r})")
        self.dedent()
        self.indent("else:")
        if self.compact(spec):
            self.emit(f"{length} -= 1")
        if kind.element is not None:
            self._array(spec, kind.element, target, label, length)
        else:
            self._bytes(kind, target, label, length)
        self.dedent()

    def _length(self, spec: FieldSpec, kind: WireType[Any]) -> str:
        length = self.fresh("n")
        if self.compact(spec):
            # Nearly every varint is one byte, so its first byte is read together with the fields before it.
            self._run.append(("B", length))
            self._flush()
            self.indent(f"if {length} > 127:")
            self.emit(f"{length}, pos = read_uvarint(buf, pos - 1)")
            self.dedent()
        else:
            self._run.append(("h" if kind.name == "string" else "i", length))
            self._flush()
        return length

    def _bytes(self, kind: WireType[Any], target: str, label: str, length: str) -> None:
        end = self.fresh("e")
        self.emit(f"{end} = pos + {length}")
        is_text = kind.name == "string"
        self.indent(f"if {end} > limit{f' or {length} > {runtime.SURELY_SHORT_BYTES}' if is_text else ''}:")
        if is_text:
            self.emit(f"{target} = read_long_text(buf, pos, {length}, {label!r})")
            self.dedent()
            self.indent("else:")
            # Kafka replaces invalid UTF-8, too.
            self.emit(f'{target} = str(buf[pos:{end}], "utf-8", "replace")')
            self.dedent()
        else:
            self.emit(f"refuse_length(buf, pos, {length}, {label!r})")
            self.dedent()
            self.emit(f"{target} = buf[pos:{end}]")
        self.emit(f"pos = {end}")

    def _array(self, spec: FieldSpec, element: WireType[Any], target: str, label: str, count: str) -> None:
        smallest = self.min_size(element)
        self.indent(f"if {count} * {smallest} > limit - pos:")
        self.emit(f"refuse_count(buf, pos, {count}, {label!r})")
        self.dedent()
        self._spend(count)
        if element.code is not None and element.code != "16s":
            self.emit(f'{target} = unpack_from(f">{{{count}}}{element.code}", buf, pos)')
            self.emit(f"pos += {count} * {smallest}")
            return
        items = self.fresh("a")
        self.emit(f"{items} = []")
        self.indent(f"for _ in range({count}):")
        if element.struct is not None:
            item = self.struct(element.struct)
        else:
            item = self.fresh("v")
            self.value(spec, element, item, label)
            self._flush()
        self.emit(f"{items}.append({item})")
        self.dedent()
        self.emit(f"{target} = tuple({items})")

    def _spend(self, count: str) -> None:
        if self._limited:
            self.emit(f"budget -= {count}")
            self.indent("if budget < 0:")
            self.emit("refuse_elements()")
            self.dedent()

    def _tagged_section(self, cls: type[Struct], built: str) -> None:
        target = f"{built}.unknown_tagged_fields"
        if not self.flexible:
            self._flush()
            self.emit(f"{target} = ()")
            return
        count = self.fresh("n")
        self._run.append(("B", count))
        self._flush()
        self.indent(f"if {count}:")
        known = self.tagged_fields(cls)
        if known:
            self._known_tags(cls, known, built, count)
        else:
            self.emit(f"{target}, pos = read_tagged_fields(buf, pos, {count})")
            self._spend(f"len({target})")
        self.dedent()
        self.indent("else:")
        self.emit(f"{target} = ()")
        self.dedent()

    def _known_tags(self, cls: type[Struct], known: list[FieldSpec], built: str, count: str) -> None:
        tag, size, end, others = (self.fresh(prefix) for prefix in ("t", "s", "e", "u"))
        self.emit(f"{others} = []")
        self.indent(f"if {count} > 127:")
        self.emit(f"{count}, pos = read_uvarint(buf, pos - 1)")
        self.dedent()
        self._spend(count)
        self.indent(f"for _ in range({count}):")
        self.emit(f"{tag}, pos = read_uvarint(buf, pos)")
        self.emit(f"{size}, pos = read_uvarint(buf, pos)")
        self.emit(f"{end} = pos + {size}")
        self.indent(f"if {end} > limit:")
        self.emit(f'refuse_length(buf, pos, {size}, "a tagged field")')
        self.dedent()
        for index, spec in enumerate(known):
            label = f"{cls.__name__}.{spec.name}"
            self.indent(f"{'elif' if index else 'if'} {tag} == {spec.tag}:")
            self.value(spec, spec.type, f"{built}.{spec.name}", label)
            self._flush()
            self.indent(f"if pos != {end}:")
            self.emit(f"refuse_tag_size({label!r}, {size})")
            self.dedent()
            self.dedent()
        self.indent("else:")
        self.emit(f"{others}.append(({tag}, bytes(buf[pos:{end}])))")
        self.emit(f"pos = {end}")
        self.dedent()
        self.dedent()
        self.emit(f"{built}.unknown_tagged_fields = tuple({others})")

    def _flush(self) -> None:
        """Emit one call that reads the collected fixed-width fields."""
        if not self._run:
            return
        if self._run[0][0] == "B" and len(self._run) == 1:
            self.emit(f"{self._run.pop()[1]} = buf[pos]")
            self.emit("pos += 1")
            return
        layout = struct.Struct(">" + "".join(code for code, _ in self._run))
        reader = self._unpacker(layout)
        raw = [(target, self.fresh("r")) for code, target in self._run if code == "16s"]
        renamed = dict(raw)
        targets = ", ".join(renamed.get(target, target) for _, target in self._run)
        self.emit(f"{targets}, = {reader}(buf, pos)")
        self.emit(f"pos += {layout.size}")
        for target, name in raw:
            self.emit(f"{target} = read_uuid({name})")
        self._run.clear()

    def _unpacker(self, layout: struct.Struct) -> str:
        name = "unpack_" + layout.format[1:].replace("?", "t")
        self.names.setdefault(name, layout.unpack_from)
        return name


def decoder_source(message: type[Message], version: int) -> tuple[str, dict[str, Any]]:
    """Return the source of ``decode(buf, pos)`` and the globals that it needs."""
    writer = DecoderSource(message, version)
    return writer.write(message), writer.names

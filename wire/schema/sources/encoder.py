"""Generates the source that encodes one version of one message in straight-line Python.

The generated ``encode(message, out, parts)`` appends to the bytearray ``out``.  At a ``records`` field it adds ``out``
and then the records' own buffers, not copied, to ``parts``, and continues with a new bytearray; it returns the last
bytearray.
"""

from __future__ import annotations

import struct
from typing import Any

from odradek.wire.schema import runtime
from odradek.wire.schema.schema import FieldSpec, Message, Struct
from odradek.wire.schema.sources.writer import SourceWriter
from odradek.wire.schema.types import WireType


class EncoderSource(SourceWriter):
    """Generates the encoder of one version; see :func:`encoder_source`."""

    def __init__(self, message: type[Message], version: int) -> None:
        super().__init__(message.__message__, version)
        self.names |= {
            "pack": struct.pack,
            "append_uvarint": runtime.append_uvarint,
            "append_tagged_fields": runtime.append_tagged_fields,
            "record_chunks": runtime.record_chunks,
            "refuse_absent": runtime.refuse_absent,
            "refuse_long_string": runtime.refuse_long_string,
            "shortened": runtime.shortened,
        }
        self._run: list[tuple[str, str]] = []
        self._out = "out"

    def write(self, message: type[Message]) -> str:
        """Return the source of the whole function."""
        self.struct(message, "message")
        self.emit("return out")
        return self.source("encode(message, out, parts)")

    def struct(self, cls: type[Struct], value: str) -> None:
        """Emit code that writes the struct in the variable ``value``."""
        for spec in self.absent_fields(cls):
            self._check_absent(cls, spec, f"{value}.{spec.name}")
        for spec in self.inline_fields(cls):
            self.value(spec, spec.type, f"{value}.{spec.name}", f"{cls.__name__}.{spec.name}")
        if self.flexible:
            self._tagged_section(cls, value)
        self._flush()

    def value(self, spec: FieldSpec, kind: WireType[Any], value: str, label: str) -> None:
        """Emit code that writes the expression ``value`` of type ``kind``; ``label`` names it in errors."""
        if kind.code is not None:
            self._run.append((kind.code, f"{value}.bytes" if kind.code == "16s" else value))
        elif kind.struct is not None:
            self._struct_field(spec, kind.struct, value)
        elif kind.element is not None:
            self._array(spec, kind, kind.element, value, label)
        else:
            self._bytes(spec, kind, value, label)

    def _check_absent(self, cls: type[Struct], spec: FieldSpec, value: str) -> None:
        if spec.ignorable:
            return
        if spec.default == ():
            test = value
        elif spec.default is None or isinstance(spec.default, bool):
            test = f"{value} is not {spec.default!r}"
        else:
            test = f"{value} != {self.literal(spec.default)}"
        self.indent(f"if {test}:")
        self.emit(f"refuse_absent({f'{cls.__name__}.{spec.name}'!r}, {self.version})")
        self.dedent()

    def _struct_field(self, spec: FieldSpec, cls: type[Struct], value: str) -> None:
        name = self.fresh("o")
        self.emit(f"{name} = {value}")
        if not (self.nullable(spec) and spec.type.struct is cls):
            self.struct(cls, name)
            return
        self._flush()
        self.indent(f"if {name} is None:")
        self.emit(f"{self._out}.append({255 if spec.tag is None else 0})")
        self.dedent()
        self.indent("else:")
        self._run.append(("b", "1"))
        self.struct(cls, name)
        self.dedent()

    def _bytes(self, spec: FieldSpec, kind: WireType[Any], value: str, label: str) -> None:
        content, length = self.fresh("b"), self.fresh("n")
        nullable = self.nullable(spec) and kind is spec.type
        if nullable:
            self.emit(f"{content} = {value}")
            self.indent(f"if {content} is None:")
            self.emit(f"{length} = -1")
            self.emit(f"{content} = ()" if kind.name == "records" else f'{content} = b""')
            self.dedent()
            self.indent("else:")
            self._measure(kind, content, content, length, label)
            self.dedent()
        else:
            self._measure(kind, value, content, length, label)
        self._write_length(spec, kind, length)
        if kind.name == "records":
            self.indent(f"if {content}:")
            self.emit("parts.append(out)")
            self.emit(f"parts += {content}")
            self.emit("out = bytearray()")
            self.dedent()
        else:
            self.emit(f"{self._out} += {content}")

    def _measure(self, kind: WireType[Any], value: str, content: str, length: str, label: str) -> None:
        if kind.name == "records":
            self.emit(f"{content}, {length} = record_chunks({value})")
            return
        self.emit(f"{content} = {value}.encode()" if kind.name == "string" else f"{content} = {value}")
        self.emit(f"{length} = len({content})")
        if kind.name == "string":
            self.indent(f"if {length} > {runtime.MAX_STRING_BYTES}:")
            if label.endswith(".error_message"):
                self.emit(f"{content} = shortened({content})")
                self.emit(f"{length} = len({content})")
            else:
                self.emit(f"refuse_long_string({label!r}, {length})")
            self.dedent()

    def _array(self, spec: FieldSpec, kind: WireType[Any], element: WireType[Any], value: str, label: str) -> None:
        items, count = self.fresh("a"), self.fresh("n")
        self.emit(f"{items} = {value}")
        if self.nullable(spec):
            self.indent(f"if {items} is None:")
            self.emit(f"{count} = -1")
            self.emit(f"{items} = ()")
            self.dedent()
            self.indent("else:")
            self.emit(f"{count} = len({items})")
            self.dedent()
        else:
            self.emit(f"{count} = len({items})")
        self._write_length(spec, kind, count)
        if element.code is not None and element.code != "16s":
            self.indent(f"if {count} > 0:")  # often empty, and packing nothing takes as long as packing one element
            self.emit(f'{self._out} += pack(f">{{{count}}}{element.code}", *{items})')
            self.dedent()
            return
        item = self.fresh("v")
        self.indent(f"for {item} in {items}:")
        self.value(spec, element, item, label)
        self._flush()
        self.dedent()

    def _write_length(self, spec: FieldSpec, kind: WireType[Any], length: str) -> None:
        if not self.compact(spec):
            self._run.append(("h" if kind.name == "string" else "i", length))
            self._flush()
            return
        pending = list(self._run)
        self.indent(f"if {length} < 127:")
        self._run.append(("B", f"{length} + 1"))
        self._flush()
        self.dedent()
        self.indent("else:")
        self._run += pending
        self._flush()
        self.emit(f"append_uvarint({self._out}, {length} + 1)")
        self.dedent()

    def _tagged_section(self, cls: type[Struct], value: str) -> None:
        known = self.tagged_fields(cls)
        tags = self.fresh("t") if known else "()"
        if known:
            self._flush()
            self.emit(f"{tags} = []")
        for spec in known:
            self._known_tag(cls, spec, value, tags)
        pending = list(self._run)
        self.indent(f"if {value}.unknown_tagged_fields{f' or {tags}' if known else ''}:")
        self._flush()
        self.emit(f"append_tagged_fields({self._out}, {tags}, {value}.unknown_tagged_fields)")
        self.dedent()
        self.indent("else:")
        self._run += [*pending, ("B", "0")]
        self._flush()
        self.dedent()

    def _known_tag(self, cls: type[Struct], spec: FieldSpec, value: str, tags: str) -> None:
        name, outer = self.fresh("v"), self._out
        self.emit(f"{name} = {value}.{spec.name}")
        if self.nullable(spec) and spec.type.struct is not None and spec.default is None:
            self.indent("if True:")  # Kafka decodes an absent field as an empty struct, so null is written
        elif spec.default == ():
            self.indent(f"if {name} is None or len({name}):")
        elif spec.default is None:
            self.indent(f"if {name} is not None:")
        else:
            default = self.literal(spec.default)
            same = f"{name} is not {default} and " if spec.type.struct is not None else ""
            self.indent(f"if {same}{name} != {default}:")
        self._out = self.fresh("sub")
        self.emit(f"{self._out} = bytearray()")
        self.value(spec, spec.type, name, f"{cls.__name__}.{spec.name}")
        self._flush()
        self.emit(f"{tags}.append(({spec.tag}, {self._out}))")
        self.dedent()
        self._out = outer

    def _flush(self) -> None:
        """Emit one call that writes the collected fixed-width values."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        values = ", ".join(value for _, value in self._run)
        if codes == "B":
            self.emit(f"{self._out}.append({values})")
        else:
            name = "pack_" + codes.replace("?", "t")
            self.names.setdefault(name, struct.Struct(">" + codes).pack)
            self.emit(f"{self._out} += {name}({values})")
        self._run.clear()


def encoder_source(message: type[Message], version: int) -> tuple[str, dict[str, Any]]:
    """Return the source of ``encode(message, out, parts)`` and the globals that it needs."""
    writer = EncoderSource(message, version)
    return writer.write(message), writer.names

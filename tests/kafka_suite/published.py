"""What tests Kafka's jars hold, read from their class files: no JVM starts for it.

That no test of the older harness is forgotten takes all their names, and the lists hold those that
somebody ran. A method that runs in several forms has one name here (``Class#method``).
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.kafka_suite.harness import JARS, require_jars
from tests.support.java import KAFKA_VERSION

OLDER_HARNESS = "kafka.server.QuorumTestHarness"
ABSTRACT = 0x0400
TESTS = frozenset({"org.junit.jupiter.api.Test", "org.junit.jupiter.params.ParameterizedTest"})
LEFT_OUT = frozenset({"org.junit.jupiter.api.Disabled", "org.apache.kafka.common.test.api.Flaky"})

# Sizes of the entries of a constant pool, without their tags, by tag; text has one of its own.
TEXT = 1
CLASS_NAME = 7
POOL_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4}
POOL_SIZES |= {15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
WIDE = frozenset({5, 6})
"""Tags of numbers that take two places of the pool."""


@dataclass(frozen=True)
class JavaClass:
    """A class as its file has it."""

    name: str
    parent: str
    abstract: bool
    methods: Mapping[str, frozenset[str]]
    """The annotations of each method, by its name and types."""


def names_in_older_harness() -> list[str]:
    """Every test under QuorumTestHarness (``Class#method``) that Kafka's own builds rely on."""
    classes = {java_class.name: java_class for java_class in _test_classes()}
    names: set[str] = set()
    for java_class in classes.values():
        line = _line(java_class, classes)
        if java_class.abstract or line[-1].name != OLDER_HARNESS:
            continue
        methods: dict[str, frozenset[str]] = {}
        for ancestor in reversed(line):
            methods |= ancestor.methods
        names.update(
            f"{java_class.name}#{method.partition('(')[0]}"
            for method, annotations in methods.items()
            if annotations & TESTS and not annotations & LEFT_OUT
        )
    return sorted(names)


def _line(java_class: JavaClass, classes: Mapping[str, JavaClass]) -> list[JavaClass]:
    """The class and those that it extends, as far as they are among these."""
    line = [java_class]
    while (parent := classes.get(line[-1].parent)) is not None:
        line.append(parent)
    return line


def _test_classes() -> Iterator[JavaClass]:
    require_jars()
    for path in JARS.glob(f"*-{KAFKA_VERSION}-test.jar"):
        with zipfile.ZipFile(path) as jar:
            for entry in jar.namelist():
                if entry.endswith(".class") and not entry.endswith("module-info.class"):
                    yield ClassFile(jar.read(entry)).read()


class ClassFile:
    """Reads a class file from its beginning to its end (chapter 4 of the JVM's specification)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 8  # behind magic number and version
        self._pool: dict[int, str | int] = {}

    def read(self) -> JavaClass:
        self._read_pool()
        flags, name, parent = self._numbers("HHH")
        (interfaces,) = self._numbers("H")
        self._position += 2 * interfaces
        self._members()  # fields
        methods = self._members()
        return JavaClass(
            self._class_name(name),
            self._class_name(parent),
            bool(flags & ABSTRACT),
            methods,
        )

    def _numbers(self, layout: str) -> tuple[int, ...]:
        numbers = struct.unpack_from(f">{layout}", self._data, self._position)
        self._position += struct.calcsize(f">{layout}")
        return numbers

    def _read_pool(self) -> None:
        (count,) = self._numbers("H")
        index = 1
        while index < count:
            (tag,) = self._numbers("B")
            if tag == TEXT:
                (length,) = self._numbers("H")
                text = self._data[self._position : self._position + length]
                self._pool[index] = text.decode(errors="replace")
                self._position += length
            else:
                if tag == CLASS_NAME:
                    self._pool[index] = struct.unpack_from(">H", self._data, self._position)[0]
                self._position += POOL_SIZES[tag]
            index += 2 if tag in WIDE else 1

    def _class_name(self, index: int) -> str:
        """The name of a class; of none (the parent of Object) it is empty."""
        return str(self._pool[int(self._pool[index])]).replace("/", ".") if index else ""

    def _members(self) -> dict[str, frozenset[str]]:
        """The annotations of fields or methods, by name and type."""
        members: dict[str, frozenset[str]] = {}
        (count,) = self._numbers("H")
        for _ in range(count):
            _, name, kind = self._numbers("HHH")
            members[f"{self._pool[name]}{self._pool[kind]}"] = self._annotations()
        return members

    def _annotations(self) -> frozenset[str]:
        """The names of annotations among the attributes that begin here."""
        names: set[str] = set()
        (count,) = self._numbers("H")
        for _ in range(count):
            name, length = self._numbers("HI")
            end = self._position + length
            if self._pool[name] == "RuntimeVisibleAnnotations":
                (annotations,) = self._numbers("H")
                for _ in range(annotations):
                    names.add(self._annotation())
            self._position = end
        return frozenset(names)

    def _annotation(self) -> str:
        kind, pairs = self._numbers("HH")
        for _ in range(pairs):
            self._position += 2
            self._skip_value()
        return str(self._pool[kind])[1:-1].replace("/", ".")

    def _skip_value(self) -> None:
        (tag,) = self._numbers("B")
        match chr(tag):
            case "e":
                self._position += 4
            case "@":
                self._annotation()
            case "[":
                (count,) = self._numbers("H")
                for _ in range(count):
                    self._skip_value()
            case _:
                self._position += 2

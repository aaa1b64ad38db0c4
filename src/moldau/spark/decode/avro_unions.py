"""Avro unions of several types, read as the structs that Spark makes of them.

Such a union becomes one of records with a field each: member0, member1 … The bytes are the same,
since a record is no more than its fields, and what is read has the form that is wanted. Records
have the names of the types in them, so that a type is found wherever it stands in the reader's
union; and where the reader has a union, types of the writer become records, too.
"""

from __future__ import annotations

import re
from typing import Any, Final

Path = tuple[str, ...]

MEMBER: Final = "moldau.member"
"""Marks records that stand for the types of a union."""

_WIDER: Final = ({"int", "long"}, {"float", "double"})
"""Unions that are their wider type, as in Spark."""
_MANY: Final = tuple(f"member{index}" for index in range(100))


class Unions:
    """Where a schema has such unions."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()
        self._of_reader = True

    def known(self) -> Unions:
        """The same ones, for schemas of writers."""
        found = Unions()
        found._paths = self._paths
        found._of_reader = False
        return found

    def of_members(self, branches: list[Any], path: Path) -> list[Any]:
        """The union with records for its types, if it is to be a struct."""
        members = [one for one in branches if one != "null"]
        if self._of_reader:
            if len(members) < 2 or set(map(str, members)) in _WIDER:
                return branches
            self._paths.add(path)
        elif path not in self._paths:
            return branches
        names = iter(_MANY)
        return [one if one == "null" else _record(one, path, next(names)) for one in branches]

    def member(self, schema: Any, path: Path) -> Any:
        """A type that is no union, as the record that the reader's union has for it."""
        if self._of_reader or path not in self._paths or schema == "null":
            return schema
        return _record(schema, path, _MANY[0])


def _record(schema: Any, path: Path, name: str) -> dict[str, Any]:
    others = [other for other in _MANY if other != name]
    return {
        "type": "record",
        "name": "moldau_union__"
        + re.sub(r"\W", "_", "__".join((*path, _signature(schema))), flags=re.ASCII),
        MEMBER: True,
        "fields": [{"name": name, "type": schema, "aliases": others}],
    }


def _signature(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return str(schema.get("name") or schema.get("logicalType") or schema["type"])

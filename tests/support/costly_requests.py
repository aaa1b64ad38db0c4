"""The most expensive legal requests of every API that fit into a size, made from the schema.

For every array a request can have: the same element so often, or as many different ones; for every
string and every field of bytes: one that fills the request. Whoever holds to the protocol may send
each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final, TypeAlias
from uuid import UUID

from moldau.broker.large_requests import MOST_OF_A_LARGE_REQUEST
from moldau.records.builder import build_batch
from moldau.records.record import Record
from moldau.wire.api import ApiKey
from moldau.wire.messages import encode_request, newest_class
from moldau.wire.primitives import MAX_TEXT_LENGTH
from moldau.wire.schema import FieldSpec, fields_of, message_class

SIZE: Final = 1_000_000
MOST_ELEMENTS: Final = MOST_OF_A_LARGE_REQUEST - 100

Path: TypeAlias = tuple[str, ...]
Hints: TypeAlias = Mapping[str, Any]
"""Values of fields, by their names: what makes a request more than an error."""

VALUES: Final[Hints] = {
    "name": "t",
    "topic": "t",
    "topic_name": "t",
    "topics": "t",
    "group_id": "g",
    "group_ids": "g",
    "groups": "g",
    "groups_names": "g",
    "coordinator_keys": "g",
    "num_partitions": -1,
    "replication_factor": -1,
    "path": "/nowhere",
    "timeout": timedelta(seconds=30),
    "session_timeout": timedelta(seconds=10),
    "rebalance_timeout": timedelta(seconds=10),
    "protocol_type": "consumer",
    "timestamp": -1,
    "offset": -1,
    "max_num_results": 1,
    "count": 2,
    "member_epoch": -1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "replica_id": -1,
    "current_leader_epoch": -1,
    "leader_epoch": -1,
    "committed_leader_epoch": -1,
    "entity_type": "user",
    "key": "producer_byte_rate",
    "value": "1",
    "topic_id": None,
}

OF_AN_API: Final[Mapping[ApiKey, Hints]] = {
    ApiKey.PRODUCE: {"acks": 1, "transactional_id": None},
    ApiKey.FETCH: {"max_wait": timedelta(0), "max_bytes": 1 << 20, "partition_max_bytes": 1 << 20},
    ApiKey.METADATA: {"allow_auto_topic_creation": False},
    ApiKey.CREATE_TOPICS: {"name": "made", "configs": ()},
    ApiKey.CREATE_PARTITIONS: {"assignments": None, "validate_only": True},
    ApiKey.DELETE_TOPICS: {"name": "nothing"},
    ApiKey.DESCRIBE_CONFIGS: {
        "resource_type": 4,
        "resource_name": "1",
        "configuration_keys": None,
        "include_synonyms": True,
        "include_documentation": True,
    },
    ApiKey.ALTER_CONFIGS: {
        "resource_type": 2,
        "resource_name": "t",
        "name": "retention.ms",
        "value": "604800000",
        "validate_only": True,
    },
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {
        "resource_type": 2,
        "resource_name": "t",
        "name": "retention.ms",
        "value": "604800000",
        "validate_only": True,
    },
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"match_type": 2, "match": None},
    ApiKey.ALTER_CLIENT_QUOTAS: {"value": 1000.0, "entity_name": "u", "validate_only": True},
    ApiKey.LIST_CONFIG_RESOURCES: {"resource_types": 2},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": "t",
        "subscribed_topic_regex": None,
        "topic_partitions": (),
        "server_assignor": None,
        "instance_id": None,
    },
    ApiKey.JOIN_GROUP: {"member_id": "", "group_instance_id": None, "name": "range"},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {"cursor": None, "response_partition_limit": 2000},
    ApiKey.FIND_COORDINATOR: {"key_type": 0},
    ApiKey.OFFSET_FETCH: {"member_id": None, "require_stable": False},
}


@dataclass(frozen=True)
class CostlyRequest:
    api: ApiKey
    version: int
    what: str
    frame: bytes
    """With its size."""

    def __str__(self) -> str:
        return f"{self.api.name} {self.version}: {self.what}"


def costly_requests(
    api: ApiKey, version: int, topic_id: UUID, *, doubles: bool = True
) -> Iterator[CostlyRequest]:
    """The requests; ``t`` is a topic with that id. ``doubles``: also those with one item very
    often.
    """
    maker = _maker(api, version, topic_id)
    for path in maker.arrays():
        for varied in (False, True) if doubles else (True,):
            frame = _fill(api, version, maker, path, varied)
            if frame is not None:
                kind = "different" if varied else "the same"
                yield CostlyRequest(api, version, f"{'.'.join(path)}, {kind}", frame)
    for path in maker.texts():
        frame = _encode(api, version, maker.make({}, long=path))
        if frame is not None:
            yield CostlyRequest(api, version, f"a long {'.'.join(path)}", frame)
    for nothing in ((), None):
        frame = _encode(api, version, maker.make({}, arrays=nothing))
        if frame is not None:
            yield CostlyRequest(api, version, f"arrays {nothing}", frame)


def modest_requests(
    api: ApiKey, version: int, topic_id: UUID, elements: int
) -> Iterator[CostlyRequest]:
    """Requests of the same kinds with so many elements in an array, some of them twice."""
    maker = _maker(api, version, topic_id)
    for path in maker.arrays():
        for kind, message in (
            ("the same", maker.make({path: elements})),
            ("different", maker.make({path: elements}, varied=True)),
            ("the first again at the end", maker.make({path: elements}, varied=True, again=True)),
        ):
            frame = _encode(api, version, message)
            if frame is not None:
                yield CostlyRequest(api, version, f"{'.'.join(path)}, {kind}", frame)


def smallest_request(api: ApiKey, version: int, topic_id: UUID) -> bytes:
    """A frame, with its size: one element in each array."""
    return encode_request(api, version, 1, "costly", _maker(api, version, topic_id).make({}))


def _maker(api: ApiKey, version: int, topic_id: UUID) -> _Maker:
    hints = {**VALUES, **OF_AN_API.get(api, {}), "topic_id": topic_id}
    return _Maker(newest_class(api, "request"), message_class(api, version, "request"), hints)


def _fill(api: ApiKey, version: int, maker: _Maker, path: Path, varied: bool) -> bytes | None:
    sizes, elements = [], []
    for number in (1, 101):
        message = maker.make({path: number}, varied=varied)
        frame = _encode(api, version, message)
        if frame is None:
            return None
        sizes.append(len(frame))
        elements.append(_elements(message))
    fit = 100 * (SIZE - sizes[0]) // max(sizes[1] - sizes[0], 1)
    most = 100 * (MOST_ELEMENTS - elements[0]) // max(elements[1] - elements[0], 1)
    return _encode(api, version, maker.make({path: min(fit, most)}, varied=varied))


def _elements(message: Any) -> int:
    kind: type = type(message)
    found = 0
    for spec in fields_of(kind):
        value = getattr(message, spec.name)
        if spec.is_array and value:
            found += len(value)
            if spec.entity is not None:
                found += sum(map(_elements, value))
    return found


def _encode(api: ApiKey, version: int, message: Any) -> bytes | None:
    """None if this version cannot say that."""
    try:
        return encode_request(api, version, 1, "costly", message)
    except Exception:
        return None


class _Maker:
    def __init__(self, newest: type, spoken: type, hints: Hints) -> None:
        self._newest = newest
        self._spoken = spoken
        self._hints = hints

    def arrays(self) -> Iterator[Path]:
        yield from _paths(self._spoken, lambda spec: spec.is_array)

    def texts(self) -> Iterator[Path]:
        yield from _paths(self._spoken, lambda spec: spec.kind in ("string", "bytes"))

    def make(
        self,
        counts: Mapping[Path, int],
        *,
        varied: bool = False,
        again: bool = False,
        long: Path | None = None,
        arrays: Any = ...,
    ) -> Any:
        """A message with so many elements in these arrays, and one in each other, or ``arrays``
        instead of each.
        """
        numbers = count(1)

        def message(kind: type, above: Path) -> Any:
            return kind(**{spec.name: field(spec, (*above, spec.name)) for spec in fields_of(kind)})

        def field(spec: FieldSpec, path: Path) -> Any:
            if spec.is_array:
                if path not in counts and arrays is not ...:
                    return arrays
                hint = self._hints.get(spec.name, ...)
                if path not in counts and (hint is None or hint == ()):
                    return hint
                number = counts.get(path, 1)
                if varied and path in counts:
                    elements = tuple(element(spec, path, vary=True) for _ in range(number))
                    return elements + elements[:1] if again else elements
                return (element(spec, path, vary=False),) * number
            return element(spec, path, vary=False)

        def element(spec: FieldSpec, path: Path, *, vary: bool) -> Any:
            if spec.entity is not None:
                made = message(spec.entity, path)
                return _varied(made, next(numbers)) if vary else made
            if path == long:
                return "a" * MAX_TEXT_LENGTH if spec.kind == "string" else b"a" * SIZE
            if vary:
                return _scalar(spec, next(numbers))
            hint = self._hints.get(spec.name, ...)
            if hint is not ... and _fits(spec, hint):
                return hint
            return _scalar(spec, None)

        return message(self._newest, ())


def _paths(kind: type, wanted: Any, above: Path = ()) -> Iterator[Path]:
    for spec in fields_of(kind):
        path = (*above, spec.name)
        if wanted(spec):
            yield path
        if spec.entity is not None:
            yield from _paths(spec.entity, wanted, path)


def _varied(made: Any, number: int) -> Any:
    """The element with other names and ids, or another index if it has no name."""
    kind: type = type(made)
    values = {spec.name: getattr(made, spec.name) for spec in fields_of(kind)}
    for kinds in (("string", "uuid"), ("int32", "int64", "int16", "int8")):
        changed = {
            spec.name: _scalar(spec, number)
            for spec in fields_of(kind)
            if not spec.is_array
            and values[spec.name] is not None
            and (spec.kind in kinds or spec.name in ("partition", "partition_index"))
        }
        if changed:
            return kind(**values | changed)
    return made


def _fits(spec: FieldSpec, hint: object) -> bool:
    if hint is None:
        return spec.nullable or spec.kind == "uuid"
    expected: dict[str, type | tuple[type, ...]] = {
        "string": str,
        "bytes": bytes,
        "bool": bool,
        "uuid": UUID,
        "float64": float,
        "timedelta_i32": timedelta,
        "timedelta_i64": timedelta,
    }
    return isinstance(hint, expected.get(spec.kind, int))


_LIMITS: Final = {"int8": 1 << 7, "int16": 1 << 15, "uint16": 1 << 16}


def _scalar(spec: FieldSpec, number: int | None) -> Any:
    match spec.kind:
        case "string":
            return "x" if number is None else f"{number:06x}"
        case "bytes":
            return b"" if number is None else b"%06d" % number
        case "records":
            return build_batch([Record(0, 0, b"k", b"v")])
        case "uuid":
            return UUID(int=number or 0)
        case "bool":
            return True
        case "float64":
            return float(number or 0)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(seconds=10)
        case "datetime_i64":
            return datetime(2020, 1, 1, tzinfo=UTC)
        case kind:
            return (number or 0) % _LIMITS.get(kind, 1 << 31)

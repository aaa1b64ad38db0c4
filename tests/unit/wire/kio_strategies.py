"""Random kio messages: Hypothesis strategies built from the same schema, and kio's own writer."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer

from moldau.model import NO_TOPIC_ID, Node
from moldau.wire.schema import FieldSpec, fields_of

few_examples = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
"""Every version of every message is drawn, so a few of each are many."""

_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "string": _TEXT,
    "bytes": st.binary(max_size=8),
    "records": st.binary(max_size=8),
    "uuid": st.none() | st.uuids(allow_nil=False),
    "error_code": st.sampled_from(KioErrorCode),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
    # kio rounds through a float of seconds, which is exact only for moderate values.
    "timedelta_i64": st.integers(-(2**40), 2**40).map(lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": st.integers(0, 2**31).map(lambda s: datetime.fromtimestamp(s, UTC)),
}
ZERO_UUID = UUID(int=0)


@cache
def messages(cls: type) -> st.SearchStrategy[Any]:
    """Instances of a kio class with arrays of up to two elements."""
    return st.builds(cls, **{spec.name: _field(spec) for spec in fields_of(cls)})


def _field(spec: FieldSpec) -> st.SearchStrategy[Any]:
    value = messages(spec.entity) if spec.entity is not None else _KINDS[spec.kind]
    if spec.is_array:
        value = st.lists(value, max_size=2).map(tuple)
    if spec.nullable and (spec.tag is None or spec.default is None):
        value = st.none() | value
    return value


def kio_bytes(message: Any) -> bytes:
    """What kio writes for this message, without a header."""
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def with_frame(response: Any, correlation_id: int) -> bytes:
    """What kio writes for a response, with its header and the frame's size."""
    body = kio_bytes(response)
    tagged = response.__header_schema__.__version__ == 1
    header = correlation_id.to_bytes(4, "big") + (b"\x00" if tagged else b"")
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


def topic_id_of(topic: Any) -> Any:
    return (topic.topic_id or NO_TOPIC_ID) if hasattr(topic, "topic_id") else None


def endpoints_of(message: Any) -> list[Node]:
    return [
        Node(node.node_id, node.host, node.port, node.rack)
        for node in getattr(message, "node_endpoints", ())
    ]

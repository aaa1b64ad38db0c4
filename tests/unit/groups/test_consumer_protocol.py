"""The embedded protocol of classic consumers, beside kio's reading and writing of it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment import v0 as a0
from kio.schema.consumer_protocol_assignment import v1 as a1
from kio.schema.consumer_protocol_assignment import v2 as a2
from kio.schema.consumer_protocol_assignment import v3 as a3
from kio.schema.consumer_protocol_subscription import v0 as s0
from kio.schema.consumer_protocol_subscription import v1 as s1
from kio.schema.consumer_protocol_subscription import v2 as s2
from kio.schema.consumer_protocol_subscription import v3 as s3
from kio.serial import entity_reader, entity_writer

from moldau.groups.consumer_protocol import (
    Assignment,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from moldau.records.errors import InvalidRecordError

SUBSCRIPTIONS: list[Any] = [s0, s1, s2, s3]
ASSIGNMENTS: list[Any] = [a0, a1, a2, a3]

names = st.text(min_size=1, max_size=8)
partitions = st.dictionaries(names, st.frozensets(st.integers(0, 99), min_size=1), max_size=3)


def written(version: int, message: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return version.to_bytes(2, "big") + out.getvalue()


@given(
    version=st.integers(0, 3),
    topics=st.frozensets(names, max_size=3),
    owned=partitions,
    user_data=st.none() | st.binary(max_size=5),
    rack=st.none() | names,
    newer=st.integers(0, 3),
)
def test_a_subscription_of_any_version_is_read(
    version: int,
    topics: frozenset[str],
    owned: dict[str, frozenset[int]],
    user_data: bytes | None,
    rack: str | None,
    newer: int,
) -> None:
    kind = SUBSCRIPTIONS[version]
    later: dict[str, Any] = {}
    if version >= 1:
        later["owned_partitions"] = tuple(
            kind.data.TopicPartition(topic=name, partitions=tuple(sorted(held)))
            for name, held in owned.items()
        )
    if version >= 2:
        later["generation_id"] = 7
    if version >= 3:
        later["rack_id"] = rack
    message = kind.ConsumerProtocolSubscription(topics=tuple(topics), user_data=user_data, **later)
    data = written(version, message)
    if version == 3:
        # A version of the future has more fields, which nobody here knows.
        data = (version + newer).to_bytes(2, "big") + data[2:] + b"more" * newer
    found = read_subscription(data)
    assert found.topics == topics
    assert found.owned == (owned if version >= 1 else {})
    assert found.rack_id == (rack if version >= 3 else None)


@given(version=st.integers(0, 9), share=partitions)
def test_an_assignment_is_written_for_the_version_of_its_reader(
    version: int, share: dict[str, frozenset[int]]
) -> None:
    data = write_assignment(share, version)
    assert read_version(data) == min(version, 3)
    kind = ASSIGNMENTS[min(version, 3)]
    message, _ = entity_reader(kind.ConsumerProtocolAssignment)(data, 2)
    assert {t.topic: frozenset(t.partitions) for t in message.assigned_partitions} == share
    assert message.user_data is None
    assert read_assignment(data) == Assignment(share)


def test_user_data_is_noticed() -> None:
    data = write_assignment({"t": [1]}, 1)[:-4]
    assert not read_assignment(data + (0).to_bytes(4, "big")).has_user_data
    assert read_assignment(data + (2).to_bytes(4, "big") + b"ab").has_user_data


def test_no_bytes_are_no_partitions() -> None:
    assert read_assignment(b"") == Assignment({})


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (read_subscription, read_assignment, read_version):
        try:
            read(data)
        except InvalidRecordError:
            continue


@pytest.mark.parametrize("data", [b"\xff\xff", b"\0", b"\0\0\0\0\0\x09"])
def test_what_is_no_subscription_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        read_subscription(data)

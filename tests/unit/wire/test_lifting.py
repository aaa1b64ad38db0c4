"""Shapes that changed between versions: nothing is lost unnoticed."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.errors import ErrorCode
from moldau.wire.api import KNOWN, ApiKey
from moldau.wire.encoding import writer
from moldau.wire.errors import EncodeError
from moldau.wire.headers import read_request_header
from moldau.wire.lifting import DROPPED, lift_rule, lower_rule
from moldau.wire.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    newest_class,
)
from moldau.wire.schema import Direction, fields_of, message_class


def lost_fields(source: type, target: type) -> set[str]:
    """Fields of ``source``, nested ones included, that ``target`` has no place for."""
    lost = set()
    wanted = {spec.name: spec for spec in fields_of(target)}
    for spec in fields_of(source):
        if spec.name not in wanted:
            lost.add(spec.name)
        elif spec.entity is not None:
            into = wanted[spec.name].entity
            assert into is not None
            lost |= lost_fields(spec.entity, into)
    return lost


@pytest.mark.parametrize("direction", ["request", "response"])
def test_every_field_that_disappeared_has_a_rule_or_a_reason(direction: Direction) -> None:
    for api, found in KNOWN.items():
        if api in {ApiKey.PRODUCE, ApiKey.FETCH}:
            continue  # they have codecs of their own
        dropped = DROPPED.get((api, direction), frozenset())
        seen = set()
        for version in range(found.oldest, found.newest):
            lost = lost_fields(message_class(api, version, direction), newest_class(api, direction))
            seen |= lost & dropped
            if lost - dropped:
                assert lift_rule(api, version, direction) is not None, (api, version, lost)
                assert lower_rule(api, version, direction) is not None, (api, version, lost)
        assert seen == dropped, api


def request_as(api: ApiKey, version: int, **fields: Any) -> Any:
    """An old request with these fields, as handlers see it."""
    cls = message_class(api, version, "request")
    frame = encode_old(cls, fields)
    return decode_request(api, version, frame, 0)


def encode_old(cls: type, fields: dict[str, Any]) -> bytes:
    out = bytearray()
    writer(cls, cls)(out, cls(**fields))
    return bytes(out)


@pytest.mark.parametrize("version", range(4))
def test_find_coordinator_with_one_key(version: int) -> None:
    fields: dict[str, Any] = {"key": "group"}
    if version >= 1:
        fields["key_type"] = 1
    request = request_as(ApiKey.FIND_COORDINATOR, version, **fields)
    assert request.coordinator_keys == ("group",)
    assert request.key_type == (1 if version else 0)
    cls: Any = newest_class(ApiKey.FIND_COORDINATOR, "response")
    coordinator: Any = next(s.entity for s in fields_of(cls) if s.name == "coordinators")
    one = coordinator(
        key="group",
        node_id=3,
        host="h",
        port=9,
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        error_message="why",
    )
    frame = encode_response(
        ApiKey.FIND_COORDINATOR, version, 1, cls(throttle_time=7, coordinators=(one,))
    )
    _, seen = decode_response(ApiKey.FIND_COORDINATOR, version, frame[4:])
    (found,) = seen.coordinators
    assert (found.node_id, found.host, found.port) == (3, "h", 9)
    assert found.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert found.error_message == ("why" if version else None)


@pytest.mark.parametrize("count", [0, 2])
def test_old_find_coordinator_has_room_for_one(count: int) -> None:
    cls: Any = newest_class(ApiKey.FIND_COORDINATOR, "request")
    request = cls(key_type=0, coordinator_keys=("k",) * count)
    with pytest.raises(EncodeError, match="room for one"):
        encode_request(ApiKey.FIND_COORDINATOR, 3, 1, None, request)


def test_delete_topics_by_name() -> None:
    request = request_as(ApiKey.DELETE_TOPICS, 5, topic_names=("a", "b"), timeout=5)
    assert [(topic.name, topic.topic_id) for topic in request.topics] == [("a", None), ("b", None)]
    frame = memoryview(encode_request(ApiKey.DELETE_TOPICS, 1, 1, None, request))[4:]
    assert decode_request(ApiKey.DELETE_TOPICS, 1, frame, read_request_header(frame)[1]) == request


def test_metadata_version_0_asks_for_all_topics_with_an_empty_list() -> None:
    assert request_as(ApiKey.METADATA, 0, topics=()).topics is None
    assert request_as(ApiKey.METADATA, 1, topics=()).topics == ()
    assert request_as(ApiKey.METADATA, 1, topics=None).topics is None
    everything: Any = newest_class(ApiKey.METADATA, "request")(
        topics=None, allow_auto_topic_creation=True, include_topic_authorized_operations=False
    )
    assert encode_request(ApiKey.METADATA, 0, 1, None, everything)[-4:] == bytes(4)


def test_metadata_defaults_are_kafkas() -> None:
    request = request_as(ApiKey.METADATA, 1, topics=None)
    assert request.allow_auto_topic_creation is True
    assert request.include_topic_authorized_operations is False


def test_leave_group_with_one_member() -> None:
    request = request_as(ApiKey.LEAVE_GROUP, 2, group_id="g", member_id="m")
    (member,) = request.members
    assert (request.group_id, member.member_id, member.group_instance_id) == ("g", "m", None)


@pytest.mark.parametrize(
    ("top", "member", "expected"),
    [
        (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NONE, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NONE, None, ErrorCode.NONE),
    ],
)
def test_old_leave_group_answer_tells_the_members_error(
    top: ErrorCode, member: ErrorCode | None, expected: ErrorCode
) -> None:
    cls: Any = newest_class(ApiKey.LEAVE_GROUP, "response")
    entity: Any = next(spec.entity for spec in fields_of(cls) if spec.name == "members")
    members: tuple[Any, ...] = ()
    if member is not None:
        members = (entity(member_id="m", group_instance_id=None, error_code=member),)
    response = cls(throttle_time=0, error_code=top, members=members)
    frame = encode_response(ApiKey.LEAVE_GROUP, 1, 1, response)
    assert decode_response(ApiKey.LEAVE_GROUP, 1, frame[4:])[1].error_code is expected


def test_offset_fetch_of_one_group() -> None:
    old: Any = message_class(ApiKey.OFFSET_FETCH, 7, "request")
    topic: Any = next(spec.entity for spec in fields_of(old) if spec.name == "topics")
    request = request_as(
        ApiKey.OFFSET_FETCH,
        7,
        group_id="g",
        topics=(topic(name="t", partition_indexes=(1, 2)),),
        require_stable=True,
    )
    (group,) = request.groups
    assert (group.group_id, group.topics[0].name, group.topics[0].partition_indexes) == (
        "g",
        "t",
        (1, 2),
    )
    everything = request_as(ApiKey.OFFSET_FETCH, 2, group_id="g", topics=None)
    assert everything.groups[0].topics is None

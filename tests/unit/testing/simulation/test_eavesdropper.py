"""What is said on the wire, in words."""

from __future__ import annotations

import struct

from moldau.testing.simulation.eavesdropper import Conversation


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(key: int, version: int, correlation_id: int, rest: bytes = b"") -> bytes:
    return frame(struct.pack(">hhi", key, version, correlation_id) + rest)


def answer(correlation_id: int, rest: bytes = b"") -> bytes:
    return frame(struct.pack(">i", correlation_id) + rest)


def test_requests_and_answers_are_told_by_their_api() -> None:
    conversation = Conversation()
    assert conversation.hear(request(0, 9, 7, b"xx"), from_client=True) == [
        "asks PRODUCE v9 #7, 10 bytes"
    ]
    assert conversation.hear(answer(7, b"y"), from_client=False) == ["answers PRODUCE #7, 5 bytes"]
    assert conversation.hear(answer(7), from_client=False) == [
        "answers an unknown request #7, 4 bytes"
    ]


def test_frames_may_come_in_any_pieces() -> None:
    conversation = Conversation()
    said = []
    for byte in request(3, 12, 1) + request(18, 3, 2):
        said += conversation.hear(bytes([byte]), from_client=True)
    assert said == ["asks METADATA v12 #1, 8 bytes", "asks API_VERSIONS v3 #2, 8 bytes"]
    assert conversation.hear(answer(2) + answer(1), from_client=False) == [
        "answers API_VERSIONS #2, 4 bytes",
        "answers METADATA #1, 4 bytes",
    ]


def test_both_directions_are_heard_apart() -> None:
    conversation = Conversation()
    whole = request(0, 9, 1)
    assert conversation.hear(whole[:6], from_client=True) == []
    assert conversation.hear(answer(5), from_client=False) == [
        "answers an unknown request #5, 4 bytes"
    ]
    assert conversation.hear(whole[6:], from_client=True) == ["asks PRODUCE v9 #1, 8 bytes"]


def test_what_is_no_kafka_is_told_as_bytes_or_not_at_all() -> None:
    conversation = Conversation()
    assert conversation.hear(frame(b"abc"), from_client=True) == ["3 bytes that are no request"]
    assert conversation.hear(frame(b"abc"), from_client=False) == ["3 bytes that are no answer"]
    assert conversation.hear(request(999, 0, 1), from_client=True) == [
        "asks API 999 v0 #1, 8 bytes"
    ]
    assert conversation.hear(b"\xff\xff\xff\xff and more", from_client=True) == []

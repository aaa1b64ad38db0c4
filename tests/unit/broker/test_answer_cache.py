"""Cached answers: dropped with their version, bounded whatever clients ask."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.answer_cache import AnswerCache


def key(
    body: bytes = b"", version: int = 13, listener: str = "PLAINTEXT"
) -> tuple[int, str, bytes]:
    return version, listener, body


def test_an_answer_is_found_for_the_same_question_in_the_same_version() -> None:
    cache = AnswerCache()
    cache.put(key(b"q"), 1, b"answer")
    assert cache.get(key(b"q"), 1) == b"answer"
    assert cache.get(key(b"other"), 1) is None
    assert cache.get(key(b"q", version=12), 1) is None
    assert cache.get(key(b"q", listener="INTERNAL"), 1) is None


def test_all_answers_go_with_their_version() -> None:
    cache = AnswerCache()
    cache.put(key(b"a"), 1, b"old")
    assert cache.get(key(b"a"), 2) is None
    cache.put(key(b"b"), 2, b"new")
    assert cache.get(key(b"a"), 2) is None
    assert cache.get(key(b"b"), 2) == b"new"
    assert cache.get(key(b"a"), 1) is None


def test_an_answer_larger_than_the_whole_cache_is_not_kept() -> None:
    cache = AnswerCache(max_bytes=10)
    cache.put(key(b"a"), 1, b"small")
    cache.put(key(b"question"), 1, b"large")
    assert cache.get(key(b"question"), 1) is None
    assert cache.get(key(b"a"), 1) == b"small"


@given(
    st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 2))),
)
def test_number_and_bytes_stay_within_bounds(puts: list[tuple[bytes, bytes, int]]) -> None:
    cache = AnswerCache(max_answers=4, max_bytes=100)
    for body, answer, version in puts:
        cache.put(key(body), version, answer)
        held = cache._answers
        assert len(held) <= 4
        assert sum(len(k[2]) + len(v) for k, v in held.items()) <= 100
        assert cache.get(key(body), version) == answer

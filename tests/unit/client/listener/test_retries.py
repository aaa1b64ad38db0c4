"""Attempts, pauses, retry topics, and what the headers of failed records say."""

from __future__ import annotations

from random import Random

import pytest

from moldau.client.errors import ConfigError
from moldau.client.listener.headers import (
    Retry,
    failed,
    own_headers,
    read_failure,
    read_retry,
    source_of,
    write_failure,
    write_retry,
)
from moldau.client.listener.modes import AckMode, CommitPolicy
from moldau.client.listener.retries import Retries, dead_letter_topic, retry_topic
from moldau.records.consumer_record import ConsumerRecord

RECORD = ConsumerRecord(
    "orders", 3, 17, 1234, key=b"k", value=b"v", headers=(("trace", b"1"), ("trace", None))
)


class Loaded(Random):
    """Dice that always fall the same way, from 0 to 1."""

    def __init__(self, chance: float) -> None:
        super().__init__()
        self._chance = chance

    def random(self) -> float:
        return self._chance


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_pauses_double_up_to_a_limit_with_jitter() -> None:
    retries = Retries(backoff_ms=100, backoff_max_ms=1000)
    pauses = [retries.pause(n, Loaded(0.5)) for n in range(1, 7)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert retries.pause(1, Loaded(0.0)) == pytest.approx(0.08)
    assert retries.pause(10_000, Loaded(1.0)) == pytest.approx(1.2)


def test_attempts_are_counted_and_fatal_errors_are_not_tried_again() -> None:
    retries = Retries(attempts=2, fatal=(LookupError,), topics_ms=(60_000, 600_000))
    assert retries.is_worth_a_retry(ValueError(), 1)
    assert not retries.is_worth_a_retry(ValueError(), 2)
    assert not retries.is_worth_a_retry(KeyError(), 1)
    assert retries.next_delay_ms(ValueError(), None) == 60_000
    assert retries.next_delay_ms(ValueError(), 60_000) == 600_000
    assert retries.next_delay_ms(ValueError(), 600_000) is None
    assert retries.next_delay_ms(ValueError(), 5) is None, "a delay of earlier settings"
    assert retries.next_delay_ms(KeyError(), None) is None


def test_names_of_topics() -> None:
    assert retry_topic("orders", 60_000) == "orders.retry.60000"
    assert dead_letter_topic("orders") == "orders.dlq"


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"backoff_ms": -1},
        {"backoff_ms": 10, "backoff_max_ms": 5},
        {"topics_ms": (0,)},
        {"topics_ms": (5, 5)},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Retries(**wrong)  # type: ignore[arg-type]


def test_a_failure_is_read_as_it_was_written() -> None:
    error = raised(ValueError("Ungültig \ud800"))
    failure = failed(RECORD, error, group="shop", attempts=2, now_ms=99)
    headers = write_failure(RECORD.headers, failure)
    assert headers[:2] == list(RECORD.headers)
    found = read_failure(headers)
    assert found is not None
    assert found.source == ("orders", 3, 17, 1234)
    assert found[1:5] == ("shop", 2, "builtins.ValueError", "Ungültig \\ud800")
    assert "in raised" in found.traceback
    assert own_headers(headers) == list(RECORD.headers)


def test_the_source_and_all_attempts_survive_several_topics() -> None:
    first = failed(RECORD, raised(ValueError("a")), group="shop", attempts=2, now_ms=1)
    headers = tuple(write_retry(RECORD.headers, Retry(first, 60_000, 60_001)))
    again = ConsumerRecord("orders.retry.60000", 1, 5, 1234, headers=headers)
    retry = read_retry(headers)
    assert retry is not None
    assert (retry.delay_ms, retry.due_ms) == (60_000, 60_001)
    assert source_of(again) == ("orders", 3, 17, 1234)
    second = failed(again, raised(KeyError("b")), group="shop", attempts=3, now_ms=2)
    assert (second.source, second.attempts) == (first.source, 5)
    letter = write_failure(again.headers, second)
    assert [name for name, _ in letter].count("moldau.source.topic") == 1
    assert read_retry(letter) is None, "a dead letter is not a retry"


def test_a_redriven_record_starts_anew() -> None:
    failure = failed(RECORD, raised(ValueError()), group="shop", attempts=2, now_ms=1)
    headers = tuple(write_failure(RECORD.headers, failure))
    letter = ConsumerRecord("orders", 0, 40, 2000, headers=headers)
    assert source_of(letter) == ("orders", 0, 40, 2000)


def test_headers_of_others_are_no_failure() -> None:
    assert read_failure([("moldau.source.topic", b"orders")]) is None
    assert read_failure([]) is None
    assert read_retry([("moldau.retry.due", b"5")]) is None


def test_long_tracebacks_keep_their_end() -> None:
    failure = failed(RECORD, raised(ValueError("x" * 10_000)), group="g", attempts=1, now_ms=1)
    assert len(failure.message) == 1000
    assert len(failure.traceback) == 4000
    assert failure.traceback.endswith("x\n")


def test_commits_are_due_by_mode() -> None:
    for mode in (AckMode.RECORD, AckMode.BATCH, AckMode.MANUAL):
        policy = CommitPolicy(mode, count=3, interval=5.0)
        assert not policy.is_due(100.0), "nothing is finished"
        policy.finished(1)
        assert policy.is_due(0.0)
        assert policy.next_due() is None
    count = CommitPolicy(AckMode.COUNT, count=3, interval=5.0)
    count.finished(2)
    assert not count.is_due(100.0)
    count.finished(1)
    assert count.is_due(0.0)
    count.committed(0.0)
    assert not count.is_due(0.0)
    timed = CommitPolicy(AckMode.TIME, count=3, interval=5.0)
    timed.started(10.0)
    assert timed.next_due() is None
    timed.finished(1)
    assert not timed.is_due(14.9)
    assert timed.next_due() == 15.0
    assert timed.is_due(15.0)
    timed.committed(15.0)
    timed.finished(1)
    assert timed.next_due() == 20.0

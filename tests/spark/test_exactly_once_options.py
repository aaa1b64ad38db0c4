"""What exactlyOnce takes, and how decisions are written down."""

from __future__ import annotations

import pytest

from moldau.spark.exactly_once.decision import (
    Decision,
    DecisionFormatError,
    QueryName,
    TaskTransaction,
    decode,
    encode,
)
from moldau.spark.exactly_once.options import (
    DEFAULT_TOPIC,
    ExactlyOnceOptions,
    exactly_once_options,
)
from moldau.spark.options import OptionError, write_options


def parse(**options: str) -> ExactlyOnceOptions:
    given = {f"exactlyOnce.{name}": value for name, value in options.items()}
    server = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "exactlyOnce": "true"}
    return exactly_once_options(write_options({**server, **given}))


def test_defaults() -> None:
    options = parse()
    assert options.timeout == 900
    assert options.margin == 30
    assert options.topic == DEFAULT_TOPIC
    assert options.on_lost == "fail"


def test_given_ones() -> None:
    options = parse(
        transactionalIdPrefix="etl.orders",
        transactionTimeout="20s",
        topic="decisions",
        onLostTransaction="Replay",
    )
    assert options.prefix == "etl.orders"
    assert (options.timeout, options.margin) == (20, 5)
    assert options.topic == "decisions"
    assert options.on_lost == "replay"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transactionTimout": "1s"}, "did you mean transactionTimeout"),
        ({"transactionTimeout": "soon"}, "transactionTimeout: 'soon' is not a duration"),
        ({"transactionTimeout": "10s", "margin": "10s"}, "must be shorter"),
        ({"onLostTransaction": "ignore"}, "must be fail or replay"),
        ({"transactionalIdPrefix": "a b"}, "may have letters"),
    ],
)
def test_mistakes(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse(**options)


def test_settings_of_the_producer_that_transactions_do_not_allow() -> None:
    given = {"kafka.bootstrap.servers": "x:1", "topic": "t", "exactlyOnce": "true"}
    with pytest.raises(OptionError, match="kafka"):
        exactly_once_options(write_options({**given, "kafka.acks": "1"}))


def test_decisions_are_read_as_they_were_written() -> None:
    decision = Decision(3, (TaskTransaction("p.q.3.0.u", 5, 6, True, 0, 100),))
    assert decode(encode(decision)) == decision


@pytest.mark.parametrize("data", [b"", b"{}", b'{"batch":1,"transactions":[],"version":2}'])
def test_decisions_that_this_release_cannot_read(data: bytes) -> None:
    with pytest.raises(DecisionFormatError):
        decode(data)


def test_the_batch_is_read_off_a_transactional_id() -> None:
    query = QueryName("etl.orders", "id")
    assert query.batch_of(query.transactional_id(12, 3, "u")) == 12
    assert query.batch_of(query.decider) is None
    assert query.batch_of("etl.orders.idea.12.3.u") is None
    assert query.batch_of("etl.orders.id.other.12.3.u") is None

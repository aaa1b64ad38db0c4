"""Options are read as the Kafka connector reads them, and wrong ones are explained."""

from __future__ import annotations

import pytest

from moldau.model import TopicPartition
from moldau.spark.offsets import EARLIEST, LATEST
from moldau.spark.options import OptionError, read_options, write_options

SERVER = {"kafka.bootstrap.servers": "localhost:9092"}
READ = {**SERVER, "subscribe": "a"}


def test_defaults_are_the_connectors() -> None:
    batch = read_options(READ, streaming=False)
    stream = read_options(READ, streaming=True)
    assert (batch.starting.everywhere, batch.ending.everywhere) == (EARLIEST, LATEST)
    assert stream.starting.everywhere == LATEST
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert batch.subscription.topics == ("a",)
    assert (batch.key.format, batch.value.format, batch.on_bad_record) == (
        "bytes",
        "bytes",
        "fail",
    )


def test_names_are_read_whatever_their_case() -> None:
    options = read_options(
        {**SERVER, "SUBSCRIBE": "a, b,a", "MaxOffsetsPerTrigger": "10"}, streaming=True
    )
    assert options.subscription.topics == ("a", "b")
    assert options.max_offsets_per_trigger == 10


def test_partitions_are_assigned_by_json() -> None:
    options = read_options({**SERVER, "assign": '{"a":[0,1],"b":[2]}'}, streaming=False)
    assert options.subscription.partitions == (("a", 0), ("a", 1), ("b", 2))


def test_one_timestamp_goes_before_timestamps_and_these_before_offsets() -> None:
    given = dict(READ)
    for name, value in (
        ("startingOffsets", '{"a":{"0":5,"1":-2}}'),
        ("startingOffsetsByTimestamp", '{"a":{"0":1000,"1":2000}}'),
        ("startingTimestamp", "3000"),
    ):
        given[name] = value
        starting = read_options(given, streaming=False).starting
        if name == "startingOffsets":
            assert starting.offsets == {TopicPartition("a", 0): 5, TopicPartition("a", 1): -2}
        elif name == "startingTimestamp":
            assert starting.timestamp == 3000
        else:
            assert starting.timestamps[TopicPartition("a", 1)] == 2000
            assert not starting.offsets


def test_settings_of_the_client_are_passed_on() -> None:
    options = read_options(
        {**READ, "kafka.isolation.level": "read_committed", "kafka.group.id": "g"}, streaming=True
    )
    assert options.read_committed
    assert options.settings.group_id == "g"
    writing = write_options({**SERVER, "topic": "t", "kafka.compression.type": "zstd"})
    assert writing.settings.compression_type == "zstd"
    assert writing.settings.enable_idempotence
    assert writing.settings.acks == -1


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("15m", 900), ("500ms", 0.5), ("2h", 7200), ("1min", 60)]
)
def test_delays_are_spark_times(text: str, seconds: float) -> None:
    assert read_options({**READ, "maxTriggerDelay": text}, streaming=True).max_trigger_delay == (
        seconds
    )


def test_a_dead_letter_topic_alone_means_dead_letters() -> None:
    options = read_options({**READ, "deadLetterTopic": "bad"}, streaming=True)
    assert (options.on_bad_record, options.dead_letter_topic) == ("deadletter", "bad")


def test_options_of_exactly_once_lose_their_prefix() -> None:
    given = {**SERVER, "exactlyOnce": "true", "exactlyOnce.prefix": "etl"}
    assert write_options(given).exactly_once == {"prefix": "etl"}
    assert write_options(SERVER).exactly_once is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribe": "a"}, "kafka.bootstrap.servers is missing"),
        (SERVER, "none of them is given"),
        ({**READ, "assign": "{}"}, "assign and subscribe are given"),
        ({**SERVER, "subscibe": "a"}, "did you mean subscribe?"),
        ({**READ, "startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"bootstrap.servers": "x:1", "subscribe": "a"}, r"begin with kafka\. \(kafka\.bootstrap"),
        ({**READ, "topic": "a"}, "topic is not for reading"),
        ({**READ, "failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false"),
        ({**READ, "minPartitions": "0"}, "minPartitions must be a positive whole number"),
        (
            {**READ, "startingOffsets": "first"},
            'must be earliest, latest or JSON, such as {"topic"',
        ),
        ({**READ, "startingOffsets": '{"a":{"0":"x"}}'}, "'x' is no offset"),
        ({**READ, "startingOffsets": "latest"}, "cannot be latest"),
        ({**READ, "startingOffsets": '{"a":{"0":-1}}'}, "cannot be latest"),
        ({**READ, "endingOffsets": "earliest"}, "cannot be earliest"),
        ({**READ, "startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({**SERVER, "assign": "a"}, "assign must be JSON"),
        ({**SERVER, "subscribePattern": "("}, "subscribePattern is no pattern"),
        ({**READ, "kafka.auto.offset.reset": "latest"}, "use the options startingOffsets"),
        ({**READ, "kafka.enable.auto.commit": "true"}, "checkpoint has the positions"),
        ({**READ, "kafka.fetch.max.byte": "1"}, "did you mean 'fetch.max.bytes'"),
        ({**READ, "kafka.ssl.key.password": "x"}, "needs security.protocol=SSL or SASL_SSL"),
        ({**READ, "value.format": "xml"}, "one of bytes, string, json, avro"),
        ({**READ, "value.format": "json"}, "needs value.schema"),
        ({**READ, "value.format": "avro"}, "needs value.schema or schema.registry.url"),
        ({**READ, "value.schema": "a INT"}, "needs value.format=json"),
        ({**READ, "onBadRecord": "deadletter"}, "needs deadLetterTopic"),
        ({**READ, "onBadRecord": "null", "deadLetterTopic": "d"}, "needs onBadRecord=deadletter"),
        ({**READ, "maxTriggerDelay": "soon"}, "maxTriggerDelay: 'soon' is not a duration"),
    ],
)
def test_what_is_wrong_with_a_read_is_explained(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message.replace("{", r"\{").replace("?", r"\?")):
        read_options(given, streaming=False)


def test_streams_have_no_end() -> None:
    with pytest.raises(OptionError, match="endingOffsets is not for streaming"):
        read_options({**READ, "endingOffsets": "latest"}, streaming=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topic": "a"}, "kafka.bootstrap.servers is missing"),
        ({**SERVER, "subscribe": "a"}, "subscribe is not for writing"),
        ({**SERVER, "topics": "a"}, "did you mean topic"),
        ({**SERVER, "exactlyOnce.prefix": "etl"}, "need exactlyOnce"),
        ({**SERVER, "kafka.transactional.id": "x"}, "use the option exactlyOnce"),
        ({**SERVER, "kafka.acks": "2"}, "acks"),
    ],
)
def test_what_is_wrong_with_a_write_is_explained(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        write_options(given)

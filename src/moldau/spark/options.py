"""The options of ``format("moldau")``, read and checked. No IO; nothing of Spark.

Names and meanings are those of Spark's Kafka connector, so that a job changes one word. What is
beyond it: typed decoding (``value.format`` …), dead letters, ``exactlyOnce``. Spark hands options
over without regard to case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal

from moldau.client.settings import ConsumerSettings, ProducerSettings
from moldau.config.option import ConfigError
from moldau.durations import MS, parse_duration_ms
from moldau.model import TopicPartition
from moldau.spark.offsets import EARLIEST, LATEST, OffsetError, PartitionOffsets, parse_offsets

Format = Literal["bytes", "string", "json", "avro"]
OnBadRecord = Literal["fail", "null", "deadletter"]
Strategy = Literal["error", "latest"]

KAFKA_PREFIX: Final = "kafka."
EXACTLY_ONCE_PREFIX: Final = "exactlyonce."

READ_OPTIONS: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "key.format",
    "key.schema",
    "key.subject",
    "value.format",
    "value.schema",
    "value.subject",
    "schema.registry.url",
    "onBadRecord",
    "deadLetterTopic",
    "deadLetterPipeline",
)
WRITE_OPTIONS: Final = ("topic", "includeHeaders", "exactlyOnce")
SPARK_OPTIONS: Final = frozenset(("path", "checkpointlocation", "queryname", "outputmode"))
"""What Spark itself may put among the options."""

_NOT_FOR_USERS: Final = {
    "key.deserializer": "keys are bytes; use the option key.format",
    "value.deserializer": "values are bytes; use the option value.format",
    "key.serializer": "keys are bytes or strings; cast the column",
    "value.serializer": "values are bytes or strings; cast the column",
    "enable.auto.commit": "Spark's checkpoint has the positions; with kafka.group.id they are "
    "committed after each batch",
    "auto.offset.reset": "use the options startingOffsets and failOnDataLoss",
    "interceptor.classes": "interceptors may change records after Spark has counted them",
    "group.instance.id": "readers are no members of a group",
    "partition.assignment.strategy": "Spark assigns offset ranges to tasks",
    "transactional.id": "use the option exactlyOnce",
}


class OptionError(ValueError):
    """An option is missing, unknown or wrong."""


@dataclass(frozen=True)
class Subscription:
    """One of the three is given."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def has(self, topic: str) -> bool:
        """Whether records of this topic are read, if there is one."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics or any(one.topic == topic for one in self.partitions)


@dataclass(frozen=True)
class Where:
    """Offsets to start or end at: the same everywhere, or by partition, or by time."""

    everywhere: int | None = None
    """``EARLIEST`` or ``LATEST``."""
    offsets: PartitionOffsets = field(default_factory=dict)
    timestamp: int | None = None
    timestamps: PartitionOffsets = field(default_factory=dict)


@dataclass(frozen=True)
class Decoding:
    """How a column of bytes becomes a typed one."""

    format: Format = "bytes"
    schema: str | None = None
    subject: str | None = None
    registry: str | None = None


@dataclass(frozen=True)
class ReadOptions:
    client: Mapping[str, str] = field(repr=False)  # there are passwords in it
    """Settings of the consumer, without their prefix."""
    subscription: Subscription
    starting: Where
    ending: Where
    by_timestamp_strategy: Strategy
    fail_on_data_loss: bool
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float
    poll_timeout: float
    key: Decoding
    value: Decoding
    on_bad_record: OnBadRecord
    dead_letter_topic: str | None
    dead_letter_pipeline: str
    """The name that letters carry: they are written once for each."""

    @property
    def read_committed(self) -> bool:
        return self.settings.isolation_level == "read_committed"

    @property
    def settings(self) -> ConsumerSettings:
        return ConsumerSettings(self.client)


@dataclass(frozen=True)
class WriteOptions:
    client: Mapping[str, str] = field(repr=False)  # there are passwords in it
    """Settings of the producer, without their prefix."""
    topic: str | None = None
    exactly_once: Mapping[str, str] | None = None
    """What follows ``exactlyOnce.`` of each such option, if exactly-once is wanted."""
    checkpoint_location: str | None = None

    @property
    def settings(self) -> ProducerSettings:
        return ProducerSettings(self.client)


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    options = _Options(given, READ_OPTIONS)
    bad, dead_letters = _bad_records(options)
    subscription = _subscription(options)
    if dead_letters is not None and subscription.has(dead_letters):
        raise OptionError(
            f"Option deadLetterTopic is {dead_letters}, which is read, too: letters would become "
            "letters again, for ever"
        )
    return ReadOptions(
        client=_client(options, ConsumerSettings),
        subscription=subscription,
        starting=_starting(options, streaming=streaming),
        ending=_ending(options, streaming=streaming),
        by_timestamp_strategy=options.word(
            "startingOffsetsByTimestampStrategy", ("error", "latest")
        ),
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
        include_headers=options.boolean("includeHeaders", False),
        min_partitions=options.number("minPartitions"),
        max_records_per_partition=options.number("maxRecordsPerPartition"),
        max_offsets_per_trigger=options.number("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=options.number("minOffsetsPerTrigger"),
        max_trigger_delay=options.duration("maxTriggerDelay", 900.0),
        poll_timeout=(options.number("kafkaConsumer.pollTimeoutMs") or 120_000) / 1000,
        key=_decoding(options, "key"),
        value=_decoding(options, "value"),
        on_bad_record=bad,
        dead_letter_topic=dead_letters,
        dead_letter_pipeline=options.text("deadLetterPipeline") or "",
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    options = _Options(given, WRITE_OPTIONS)
    exactly_once = None
    more = {
        name.removeprefix(EXACTLY_ONCE_PREFIX): value
        for name, value in options.given.items()
        if name.startswith(EXACTLY_ONCE_PREFIX)
    }
    if options.boolean("exactlyOnce", False):
        exactly_once = more
    elif more:
        raise OptionError(f"Options of exactlyOnce ({', '.join(sorted(more))}) need exactlyOnce")
    return WriteOptions(
        client=_client(options, ProducerSettings),
        topic=options.text("topic"),
        exactly_once=exactly_once,
        checkpoint_location=options.given.get("checkpointlocation"),
    )


class _Options:
    """Given options by name in lower case, with readers that name the option they complain of."""

    def __init__(self, given: Mapping[str, str], known: Iterable[str]) -> None:
        self.given = {name.lower(): value for name, value in given.items()}
        names = {name.lower(): name for name in known}
        for name in self.given:
            if name not in names and not self._is_free(name, "exactlyonce" in names):
                raise OptionError(_unknown(name, names))

    @staticmethod
    def _is_free(name: str, writing: bool) -> bool:
        return (
            name.startswith(KAFKA_PREFIX)
            or name in SPARK_OPTIONS
            or (writing and name.startswith(EXACTLY_ONCE_PREFIX))
        )

    def text(self, name: str) -> str | None:
        value = self.given.get(name.lower())
        if value is None:
            return None
        value = value.strip()
        if not value:
            raise OptionError(f"Option {name} must not be empty")
        return value

    def boolean(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise OptionError(f"Option {name} must be true or false, not {value!r}")
        return value.lower() == "true"

    def number(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.isdecimal() or int(value) == 0:
            raise OptionError(f"Option {name} must be a positive whole number, not {value!r}")
        return int(value)

    def word(self, name: str, words: tuple[Any, ...]) -> Any:
        """One of ``words``, of which the first is the default."""
        value = self.text(name)
        if value is None:
            return words[0]
        if value.lower() not in words:
            raise OptionError(f"Option {name} must be one of {', '.join(words)}, not {value!r}")
        return value.lower()

    def duration(self, name: str, default: float) -> float:
        value = self.text(name)
        if value is None:
            return default
        return parse_duration(name, value)

    def timestamp(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.isdecimal():
            raise OptionError(
                f"Option {name} must be a time in milliseconds since 1970, not {value!r}"
            )
        return int(value)

    def offsets(self, name: str, what: str) -> PartitionOffsets:
        value = self.text(name)
        if value is None:
            return {}
        try:
            return parse_offsets(value)
        except OffsetError as error:
            raise OptionError(
                f'Option {name} must be {what}, such as {{"topic":{{"0":23}}}}: {error}'
            ) from None


def parse_duration(name: str, value: str) -> float:
    """Seconds; a bare number counts milliseconds, as in Spark's time strings."""
    try:
        return parse_duration_ms(value, bare=MS) / 1000
    except ValueError as error:
        raise OptionError(f"Option {name}: {error}") from None


def _unknown(name: str, names: Mapping[str, str]) -> str:
    what = "writing" if "exactlyonce" in names else "reading"
    other = WRITE_OPTIONS if what == "reading" else READ_OPTIONS
    if name in {option.lower() for option in other}:
        return f"Option {name} is not for {what}"
    if name in ConsumerSettings.table or name in ProducerSettings.table:
        return f"There is no option {name}: settings of the client begin with kafka. (kafka.{name})"
    close = get_close_matches(name, [*names, "kafka.bootstrap.servers"], n=1, cutoff=0.6)
    if close:
        return f"There is no option {name}: did you mean {names.get(close[0], close[0])}?"
    return f"There is no option {name}; those for {what} are {', '.join(sorted(names.values()))}"


def _client(options: _Options, kind: type[ConsumerSettings | ProducerSettings]) -> dict[str, str]:
    client = {
        name.removeprefix(KAFKA_PREFIX): value
        for name, value in options.given.items()
        if name.startswith(KAFKA_PREFIX)
    }
    for name in client:
        if name in _NOT_FOR_USERS:
            raise OptionError(f"Option kafka.{name} is not supported: {_NOT_FOR_USERS[name]}")
    if not client.get("bootstrap.servers", "").strip():
        raise OptionError(
            "Option kafka.bootstrap.servers is missing: some brokers of the cluster, as host:port"
        )
    try:
        kind(client)
    except ConfigError as error:
        raise OptionError(f"An option kafka.* is wrong: {error}") from None
    return client


def _subscription(options: _Options) -> Subscription:
    names = ("assign", "subscribe", "subscribePattern")
    given = [name for name in names if options.text(name) is not None]
    if len(given) != 1:
        found = "none of them is given" if not given else f"{' and '.join(given)} are given"
        raise OptionError(f"One of the options {', '.join(names)} says what to read; {found}")
    value = options.text(given[0]) or ""
    if given[0] == "subscribe":
        topics = [topic.strip() for topic in value.split(",") if topic.strip()]
        if not topics:
            raise OptionError("Option subscribe must name topics, separated by commas")
        return Subscription(topics=tuple(dict.fromkeys(topics)))
    if given[0] == "subscribePattern":
        try:
            re.compile(value)
        except re.error as error:
            raise OptionError(f"Option subscribePattern is no pattern: {error}") from None
        return Subscription(pattern=value)
    return Subscription(partitions=_assigned(value))


def _assigned(value: str) -> tuple[TopicPartition, ...]:
    try:
        parsed = json.loads(value)
        pairs = [(topic, int(number)) for topic, numbers in parsed.items() for number in numbers]
    except (ValueError, TypeError, AttributeError):
        raise OptionError(
            f'Option assign must be JSON such as {{"topicA":[0,1],"topicB":[2]}}, not {value!r}'
        ) from None
    if not pairs:
        raise OptionError("Option assign names no partition")
    return tuple(TopicPartition(*pair) for pair in dict.fromkeys(pairs))


def _where(options: _Options, prefix: Literal["starting", "ending"], default: int) -> Where:
    """As in the connector, one time for all goes before times, and these before offsets."""
    timestamp = options.timestamp(f"{prefix}Timestamp")
    if timestamp is not None:
        return Where(timestamp=timestamp)
    timestamps = options.offsets(f"{prefix}OffsetsByTimestamp", "JSON with times in milliseconds")
    if timestamps:
        return Where(timestamps=timestamps)
    name = f"{prefix}Offsets"
    text = options.text(name)
    if text is None:
        return Where(everywhere=default)
    if text.lower() in ("earliest", "latest"):
        return Where(everywhere=EARLIEST if text.lower() == "earliest" else LATEST)
    return Where(offsets=options.offsets(name, "earliest, latest or JSON"))


def _starting(options: _Options, *, streaming: bool) -> Where:
    where = _where(options, "starting", LATEST if streaming else EARLIEST)
    if not streaming and (where.everywhere == LATEST or LATEST in where.offsets.values()):
        raise OptionError(
            "Option startingOffsets cannot be latest (-1) in a batch query: there would be "
            "nothing to read"
        )
    return where


def _ending(options: _Options, *, streaming: bool) -> Where:
    where = _where(options, "ending", LATEST)
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if streaming and options.text(name) is not None and not where.offsets:
            raise OptionError(
                f"Option {name} is not for streaming queries: of them only JSON with offsets is "
                "an end"
            )
    if where.everywhere == EARLIEST or EARLIEST in where.offsets.values():
        raise OptionError(
            "Option endingOffsets cannot be earliest (-2): there would be nothing to read"
        )
    return where


def _decoding(options: _Options, column: Literal["key", "value"]) -> Decoding:
    name = f"{column}.format"
    kind: Format = options.word(name, ("bytes", "string", "json", "avro"))
    schema = options.text(f"{column}.schema")
    subject = options.text(f"{column}.subject")
    registry = options.text("schema.registry.url")
    if kind == "json" and schema is None:
        raise OptionError(
            f"Option {name}=json needs {column}.schema, such as 'id BIGINT, name STRING'"
        )
    if kind == "avro" and schema is None and registry is None:
        raise OptionError(f"Option {name}=avro needs {column}.schema or schema.registry.url")
    if kind in ("bytes", "string") and schema is not None:
        raise OptionError(f"Option {column}.schema needs {name}=json or {name}=avro")
    if kind != "avro" and subject is not None:
        raise OptionError(f"Option {column}.subject needs {name}=avro")
    return Decoding(kind, schema, subject, registry)


def _bad_records(options: _Options) -> tuple[OnBadRecord, str | None]:
    topic = options.text("deadLetterTopic")
    default: OnBadRecord = "fail" if topic is None else "deadletter"
    action: OnBadRecord = options.word("onBadRecord", (default, "fail", "null", "deadletter"))
    if action == "deadletter" and topic is None:
        raise OptionError("Option onBadRecord=deadletter needs deadLetterTopic")
    if action != "deadletter" and topic is not None:
        raise OptionError(f"Option deadLetterTopic needs onBadRecord=deadletter, not {action}")
    return action, topic

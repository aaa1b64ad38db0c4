"""Settings of consumers."""

from __future__ import annotations

from typing import Any, Final

from moldau.client.settings.common import CommonSettings
from moldau.client.settings.objects import component, components
from moldau.config.declare import boolean, integer, optional_string, string
from moldau.config.option import ConfigError
from moldau.config.validators import OffsetReset, OneOf

_CLASSIC_ONLY: Final = (
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
)
"""With the consumer protocol the broker decides these."""


class ConsumerSettings(CommonSettings):
    """``Consumer`` and ``AsyncConsumer``."""

    kind = "a consumer"

    allow_auto_create_topics = boolean(
        True, "Let the cluster create a topic that is subscribed to and not there, if it does that."
    )
    auto_commit_interval_ms = integer(
        5000, "How often positions are committed with enable.auto.commit.", at_least=0
    )
    auto_offset_reset = string(
        "latest",
        "Where to start in a partition without a committed offset, or when it is out of range: "
        "earliest, latest, by_duration:PT1H (an hour ago), or none (an error).",
        allowed=OffsetReset("earliest", "latest", "none"),
    )
    check_crcs = boolean(True, "Check the checksums of batches.")
    default_api_timeout_ms = integer(
        60_000, "How long methods without a timeout of their own may take.", at_least=0
    )
    enable_auto_commit = boolean(True, "Commit the positions of polled records now and then.")
    enable_auto_offset_store = boolean(
        True,
        "Take the positions of polled records for committing; if false, store_offset() says which.",
    )
    exclude_internal_topics = boolean(
        True, "Keep the cluster's own topics out of pattern subscriptions."
    )
    fetch_max_bytes = integer(52_428_800, "Most bytes of a fetch's answer.", at_least=0)
    fetch_max_wait_ms = integer(
        500, "How long a broker waits for fetch.min.bytes to be there.", at_least=0
    )
    fetch_min_bytes = integer(1, "A broker answers a fetch when so much is there.", at_least=0)
    group_id = optional_string("The group that shares the partitions and the committed offsets.")
    group_instance_id = optional_string(
        "A name of this member that lasts over restarts (static membership)."
    )
    group_protocol = string(
        "classic",
        "The group protocol: classic, or consumer, where the broker assigns (KIP-848).",
        convert=str.lower,
        allowed=OneOf("classic", "consumer"),
    )
    group_remote_assignor = optional_string(
        "The broker's assignor to use with group.protocol=consumer: uniform or range."
    )
    heartbeat_interval_ms = integer(3000, "How often the coordinator hears of us.", at_least=1)
    interceptor_classes = components(
        (), "Interceptors: objects or classes with on_consume and on_commit."
    )
    isolation_level = string(
        "read_uncommitted",
        "Whether to read only records of committed transactions.",
        convert=str.lower,
        allowed=OneOf("read_uncommitted", "read_committed"),
    )
    key_deserializer = component(
        "bytes", "What makes keys of bytes: bytes, str, json, a function, or an object."
    )
    value_deserializer = component(
        "bytes", "What makes values of bytes: bytes, str, json, a function, or an object."
    )
    max_partition_fetch_bytes = integer(
        1_048_576, "Most bytes of one partition in a fetch's answer.", at_least=0
    )
    max_poll_interval_ms = integer(
        300_000, "A member that does not poll for so long loses its partitions.", at_least=1
    )
    max_poll_records = integer(500, "Most records that a poll gives.", at_least=1)
    partition_assignment_strategy = components(
        ("range", "cooperative-sticky"),
        "Assignors in order of preference: range, roundrobin, sticky, cooperative-sticky, or "
        "ceil, or classes of your own.",
    )
    queued_max_messages_kbytes = integer(
        65_536, "Most kilobytes fetched ahead of poll(), over all partitions.", at_least=1
    )
    session_timeout_ms = integer(
        45_000, "A member that is not heard of for so long is taken for dead.", at_least=1
    )

    def _derive(self, values: dict[str, Any]) -> None:
        super()._derive(values)
        if values["group_id"] is None and "enable.auto.commit" not in values["explicit"]:
            values["enable_auto_commit"] = False

    def _check(self) -> None:
        super()._check()
        self._require(self.group_id != "", "group.id must not be empty")
        self._require(self.group_instance_id != "", "group.instance.id must not be empty")
        self._require(
            self.group_id is not None or not self.enable_auto_commit,
            "enable.auto.commit needs a group.id",
        )
        if self.group_protocol == "consumer":
            for name in _CLASSIC_ONLY:
                if name in self.explicit:
                    raise ConfigError(
                        f"{name} cannot be set with group.protocol=consumer: the broker decides it"
                    )
        else:
            self._require(
                self.group_remote_assignor is None,
                "group.remote.assignor needs group.protocol=consumer",
            )
            self._require(
                self.heartbeat_interval_ms < self.session_timeout_ms,
                "heartbeat.interval.ms must be less than session.timeout.ms",
            )

"""Settings of producers."""

from __future__ import annotations

from typing import Any, Final

from moldau.client.settings.common import CommonSettings
from moldau.client.settings.objects import component, components
from moldau.config.declare import boolean, integer, long, optional_string, string
from moldau.config.option import Option
from moldau.config.options.compression import CompressionLevels
from moldau.config.types import MAX_INT, ConfigType
from moldau.config.validators import OneOf

ALL_REPLICAS: Final = -1
MOST_IN_FLIGHT: Final = 5
"""Of an idempotent producer: brokers remember this many batches of one in a partition."""
_ACKS: Final = {"all": ALL_REPLICAS, "-1": ALL_REPLICAS, "0": 0, "1": 1}


def _parse_acks(text: str) -> int:
    try:
        return _ACKS[text]
    except KeyError:
        raise ValueError("must be one of: all, -1, 0, 1") from None


class _Acks(Option[int]):
    def format(self, value: object) -> str | None:
        return "all" if value == ALL_REPLICAS else super().format(value)


class ProducerSettings(CommonSettings, CompressionLevels):
    """``Producer`` and ``AsyncProducer``."""

    kind = "a producer"

    acks = _Acks(
        ConfigType.STRING,
        _parse_acks,
        ALL_REPLICAS,
        "Who must have stored a record before it is acknowledged: all in-sync replicas (all or "
        "-1), the leader (1), nobody (0).",
    )
    batch_size = integer(16_384, "Most bytes of a batch of one partition.", at_least=0)
    buffer_memory = long(
        33_554_432, "Bytes of records that may wait to be sent before send() blocks.", at_least=0
    )
    compression_type = string(
        "none", "The codec of batches.", allowed=OneOf("none", "gzip", "snappy", "lz4", "zstd")
    )
    delivery_timeout_ms = integer(
        120_000,
        "A record that is not acknowledged so long after send() has failed, however often it "
        "may still be retried.",
        at_least=0,
    )
    enable_idempotence = boolean(
        True,
        "Store a retried record once and keep the order of each partition. Needs acks=all, "
        "retries, and at most 5 requests in flight; with settings that contradict it, it is "
        "off unless asked for.",
    )
    interceptor_classes = components(
        (), "Interceptors: objects or classes with on_send and on_acknowledgement."
    )
    key_serializer = component(
        "bytes", "What makes bytes of keys: bytes, str, json, a function, or an object."
    )
    value_serializer = component(
        "bytes", "What makes bytes of values: bytes, str, json, a function, or an object."
    )
    linger_ms = long(5, "How long a batch waits for more records.", at_least=0)
    max_block_ms = long(
        60_000, "How long send() may wait for metadata or for room in the buffer.", at_least=0
    )
    max_in_flight_requests_per_connection = integer(
        5, "How many requests may be under way to one broker.", at_least=1
    )
    max_request_size = integer(1_048_576, "Most bytes of a request, and of a record.", at_least=0)
    metadata_max_idle_ms = long(
        300_000, "A topic that nothing was sent to for so long is forgotten.", at_least=5000
    )
    partitioner_class = component(
        None,
        "What chooses partitions: an object or class with partition(); round_robin; by default "
        "the hash of the key, or batch by batch for records without one.",
    )
    partitioner_adaptive_partitioning_enable = boolean(
        True, "Give partitions of slow brokers fewer of the records without a key."
    )
    partitioner_availability_timeout_ms = long(
        0, "Partitions with long queues get less anyway.", at_least=0, inert=True
    )
    partitioner_ignore_keys = boolean(False, "Choose partitions as if records had no keys.")
    receive_buffer_bytes = integer(
        32_768, "SO_RCVBUF of connections; -1 leaves it to the operating system.", at_least=-1
    )
    retries = integer(
        MAX_INT, "How often a batch is sent again; delivery.timeout.ms is the better limit.",
        at_least=0,
    )  # fmt: skip
    transaction_timeout_ms = integer(
        60_000, "The cluster aborts a transaction that is open for longer.", at_least=1
    )
    transaction_two_phase_commit_enable = boolean(
        False, "Not supported: the cluster always bounds transactions."
    )
    transactional_id = optional_string(
        "A name that lasts over restarts, for transactions; a newer producer with it fences "
        "older ones off."
    )

    def _derive(self, values: dict[str, Any]) -> None:
        super()._derive(values)
        explicit = values["explicit"]
        wants = "enable.idempotence" in explicit or values["transactional_id"] is not None
        if not wants and _contradiction(values):
            values["enable_idempotence"] = False
        if "delivery.timeout.ms" not in explicit:
            least = values["linger_ms"] + values["request_timeout_ms"]
            values["delivery_timeout_ms"] = max(values["delivery_timeout_ms"], least)

    def _check(self) -> None:
        super()._check()
        if self.enable_idempotence:
            reason = _contradiction(vars(self))
            self._require(not reason, f"enable.idempotence needs {reason}")
        else:
            self._require(
                self.transactional_id is None, "transactional.id needs enable.idempotence=true"
            )
        self._require(self.transactional_id != "", "transactional.id must not be empty")
        self._require(
            self.delivery_timeout_ms >= self.linger_ms + self.request_timeout_ms,
            "delivery.timeout.ms must be at least linger.ms plus request.timeout.ms",
        )
        self._require(
            not self.transaction_two_phase_commit_enable,
            "transaction.two.phase.commit.enable is not supported",
        )

    @property
    def compression_level(self) -> int | None:
        """The level of the codec in use."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)


def _contradiction(values: dict[str, Any]) -> str:
    """What idempotence would need and does not get."""
    if values["acks"] != ALL_REPLICAS:
        return "acks=all"
    if values["retries"] == 0:
        return "retries above 0"
    if values["max_in_flight_requests_per_connection"] > MOST_IN_FLIGHT:
        return f"max.in.flight.requests.per.connection of at most {MOST_IN_FLIGHT}"
    return ""

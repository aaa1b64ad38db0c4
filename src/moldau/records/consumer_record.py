"""One record as a consumer hands it to its user: with its topic and partition, deserialized."""

from __future__ import annotations

from typing import Any, final

from moldau.native import mypyc_attr
from moldau.records.batch import CREATE_TIME
from moldau.records.record import Headers

NO_LEADER_EPOCH = -1


@final
@mypyc_attr(acyclic=True)  # tracking hundreds of thousands a second costs the GC a third of a poll
class ConsumerRecord:
    """A record and where it came from; immutable by convention.

    ``timestamp`` is in milliseconds, -1 if there is none; ``timestamp_type`` is 0 for the time the
    producer gave (CreateTime) and 1 for the broker's (LogAppendTime). ``key`` and ``value`` are
    bytes unless the consumer has deserializers; a value of None is a tombstone. ``headers`` are
    pairs of a name and bytes; names may repeat.

    The garbage collector does not look into records: a deserialized value must not refer back to
    its record, or neither is ever freed.
    """

    __slots__ = (
        "headers",
        "key",
        "leader_epoch",
        "offset",
        "partition",
        "timestamp",
        "timestamp_type",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int = -1,
        timestamp_type: int = CREATE_TIME,
        key: Any = None,
        value: Any = None,
        headers: Headers = (),
        leader_epoch: int = NO_LEADER_EPOCH,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.headers = headers
        self.leader_epoch = leader_epoch

    def _fields(self) -> tuple[Any, ...]:
        return (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp,
            self.timestamp_type,
            self.key,
            self.value,
            self.headers,
            self.leader_epoch,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))

    def __reduce__(self) -> tuple[object, ...]:
        return ConsumerRecord, self._fields()

    def __repr__(self) -> str:
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, "
            f"offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r}, leader_epoch={self.leader_epoch})"
        )

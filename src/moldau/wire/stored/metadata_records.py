"""Records of the metadata log of a KRaft cluster, as far as taking over its directories needs them.

Each value is framed as

    frame version, record type, record version (unsigned varints), then the record's fields.

The annotations are read at run time, so this module does not postpone them.
"""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from moldau.wire.data_messages import decode
from moldau.wire.declaring import BOOL, FLOAT64, INT8, INT32, INT64, STRING, UUID, since, tagged
from moldau.wire.errors import DecodeError
from moldau.wire.primitives import read_uvarint

_FRAME_VERSION: Final = 1
LEADER_UNCHANGED: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    FLEXIBLE: ClassVar = 0

    name: str = field(metadata=STRING)
    topic_id: uuid.UUID = field(metadata=UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    NEWEST: ClassVar = 2
    FLEXIBLE: ClassVar = 0

    partition_id: int = field(metadata=INT32)
    topic_id: uuid.UUID = field(metadata=UUID)
    replicas: tuple[int, ...] = field(metadata=INT32)
    isr: tuple[int, ...] = field(metadata=INT32)
    removing_replicas: tuple[int, ...] = field(metadata=INT32, default=())
    adding_replicas: tuple[int, ...] = field(metadata=INT32, default=())
    leader: int = field(metadata=INT32)
    leader_epoch: int = field(metadata=INT32)
    partition_epoch: int = field(metadata=INT32)
    leader_recovery_state: int = field(metadata=INT8 | tagged(0), default=0)
    directories: tuple[uuid.UUID | None, ...] = field(metadata=UUID | since(1), default=())
    eligible_leader_replicas: tuple[int, ...] | None = field(
        metadata=INT32 | tagged(1, since=2), default=None
    )
    last_known_elr: tuple[int, ...] | None = field(
        metadata=INT32 | tagged(2, since=2), default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    FLEXIBLE: ClassVar = 0

    resource_type: int = field(metadata=INT8)
    resource_name: str = field(metadata=STRING)
    name: str = field(metadata=STRING)
    value: str | None = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """What is not there has not changed."""

    NEWEST: ClassVar = 2
    FLEXIBLE: ClassVar = 0

    partition_id: int = field(metadata=INT32)
    topic_id: uuid.UUID = field(metadata=UUID)
    isr: tuple[int, ...] | None = field(metadata=INT32 | tagged(0), default=None)
    leader: int = field(metadata=INT32 | tagged(1), default=LEADER_UNCHANGED)
    replicas: tuple[int, ...] | None = field(metadata=INT32 | tagged(2), default=None)
    removing_replicas: tuple[int, ...] | None = field(metadata=INT32 | tagged(3), default=None)
    adding_replicas: tuple[int, ...] | None = field(metadata=INT32 | tagged(4), default=None)
    leader_recovery_state: int = field(metadata=INT8 | tagged(5), default=-1)
    eligible_leader_replicas: tuple[int, ...] | None = field(
        metadata=INT32 | tagged(6, since=2), default=None
    )
    last_known_elr: tuple[int, ...] | None = field(
        metadata=INT32 | tagged(7, since=2), default=None
    )
    directories: tuple[uuid.UUID | None, ...] | None = field(
        metadata=UUID | tagged(8, since=1), default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    FLEXIBLE: ClassVar = 0

    topic_id: uuid.UUID = field(metadata=UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntityData:
    entity_type: str = field(metadata=STRING)
    entity_name: str | None = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord:
    FLEXIBLE: ClassVar = 0

    entity: tuple[QuotaEntityData, ...] = ()
    key: str = field(metadata=STRING)
    value: float = field(metadata=FLOAT64)
    remove: bool = field(metadata=BOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    FLEXIBLE: ClassVar = 0

    broker_id: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64)
    next_producer_id: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransactionRecord:
    FLEXIBLE: ClassVar = 0

    name: str | None = field(metadata=STRING | tagged(0), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRecord:
    FLEXIBLE: ClassVar = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactionRecord:
    FLEXIBLE: ClassVar = 0

    reason: str | None = field(metadata=STRING | tagged(0), default=None)


MetadataRecord: TypeAlias = (
    TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
)

_TYPES: Final[dict[int, type[MetadataRecord]]] = {
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    9: RemoveTopicRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
}


def decode_metadata_record(value: bytes) -> MetadataRecord | None:
    """What a record of the metadata log says; None when it is of a type that is not known here.

    Raises ``DecodeError`` when it is damaged, or of a version from the future.
    """
    view = memoryview(value)
    try:
        frame_version, pos = read_uvarint(view, 0)
        record_type, pos = read_uvarint(view, pos)
        version, pos = read_uvarint(view, pos)
    except IndexError:
        raise DecodeError(f"{len(value)} bytes are no metadata record") from None
    if frame_version != _FRAME_VERSION:
        raise DecodeError(f"frame version {frame_version} of a metadata record")
    shape = _TYPES.get(record_type)
    return None if shape is None else decode(shape, version, value, pos)

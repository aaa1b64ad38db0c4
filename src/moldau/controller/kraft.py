"""Reading the metadata log of a KRaft broker (Apache Kafka 3.3 and later).

A directory written by such a broker keeps its topics' settings not beside the logs but as records
in ``__cluster_metadata-0``: a ``.checkpoint`` with everything up to an offset, then segments. Only
what adopting the directory needs is declared (``moldau.wire.stored.metadata_records``); other
records are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moldau.controller.kraft_image import KraftPartition, KraftTopic, MetadataImage
from moldau.errors import ErrorCode, KafkaError
from moldau.quotas.entity import ClientQuotaEntity
from moldau.records.batch import iter_headers
from moldau.records.reader import read_records
from moldau.wire.errors import DecodeError
from moldau.wire.stored import metadata_records as r

_TOPIC_RESOURCE = 2
_BROKER_RESOURCE = 4
_CLIENT_METRICS_RESOURCE = 16
_GROUP_RESOURCE = 32


def metadata_values(data: bytes) -> Iterator[bytes]:
    """The values of the data records in a ``.checkpoint`` or ``.log`` file of the metadata log.

    A torn batch at the end (the broker was killed) is left out: it was never committed.
    """
    for position, header in iter_headers(data):
        if header.is_control:
            continue
        for record in read_records(data, position):
            if record.value is not None:
                yield record.value


def replay(values: Iterable[bytes]) -> MetadataImage:
    """The image after these records, in order: the newest checkpoint's, then the segments'.

    Segments may begin before the checkpoint's offset; replaying those records again is harmless.
    Records of a metadata transaction (KIP-868) count once it ends. KafkaError(CORRUPT_MESSAGE) for
    what cannot be read.
    """
    image = MetadataImage()
    transaction: list[r.MetadataRecord] | None = None
    for value in values:
        record = _decoded(value)
        match record:
            case None:
                continue
            case r.BeginTransactionRecord():
                transaction = []
            case r.EndTransactionRecord():
                for held_back in transaction or ():
                    _apply(image, held_back)
                transaction = None
            case r.AbortTransactionRecord():
                transaction = None
            case _ if transaction is not None:
                transaction.append(record)
            case _:
                _apply(image, record)
    return image


def _decoded(value: bytes) -> r.MetadataRecord | None:
    try:
        return r.decode_metadata_record(value)
    except DecodeError as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"The cluster metadata log is malformed: {error}"
        ) from error


def _apply(image: MetadataImage, record: r.MetadataRecord) -> None:
    match record:
        case r.TopicRecord():
            image.topics.setdefault(record.topic_id, KraftTopic(record.name, record.topic_id))
        case r.RemoveTopicRecord():
            removed = image.topics.pop(record.topic_id, None)
            if removed is not None:
                image.topic_configs.pop(removed.name, None)
        case r.PartitionRecord():
            topic = image.topics.get(record.topic_id)
            if topic is not None:
                partition = KraftPartition(record.replicas, record.leader_epoch)
                topic.partitions[record.partition_id] = partition
        case r.PartitionChangeRecord():
            _apply_partition_change(image, record)
        case r.ConfigRecord():
            _apply_config(image, record)
        case r.ClientQuotaRecord():
            _apply_quota(image, record)
        case r.ProducerIdsRecord():
            image.next_producer_id = max(image.next_producer_id, record.next_producer_id)


def _apply_partition_change(image: MetadataImage, record: r.PartitionChangeRecord) -> None:
    """Only the leader epoch matters here: it rises with every change that names a leader."""
    topic = image.topics.get(record.topic_id)
    partition = topic.partitions.get(record.partition_id) if topic is not None else None
    if partition is not None and record.leader != r.LEADER_UNCHANGED:
        partition.leader_epoch += 1


def _apply_config(image: MetadataImage, record: r.ConfigRecord) -> None:
    resource = record.resource_name
    if record.resource_type == _TOPIC_RESOURCE:
        configs = image.topic_configs
    elif record.resource_type == _BROKER_RESOURCE:
        configs = image.broker_configs
    elif record.resource_type == _CLIENT_METRICS_RESOURCE:
        configs = image.client_metrics_configs
    elif record.resource_type == _GROUP_RESOURCE:
        configs = image.group_configs
    else:
        return
    if record.value is not None:
        configs.setdefault(resource, {})[record.name] = record.value
    elif resource in configs:
        configs[resource].pop(record.name, None)
        if not configs[resource]:
            del configs[resource]


def _apply_quota(image: MetadataImage, record: r.ClientQuotaRecord) -> None:
    entity = ClientQuotaEntity.of({part.entity_type: part.entity_name for part in record.entity})
    if not record.remove:
        image.client_quotas.setdefault(entity, {})[record.key] = record.value
    elif entity in image.client_quotas:
        image.client_quotas[entity].pop(record.key, None)
        if not image.client_quotas[entity]:
            del image.client_quotas[entity]

"""Read, process, write: our consumer and our producer in one transaction, on Apache Kafka."""

from __future__ import annotations

import uuid
from typing import Any

from tests.client.conftest import topic_factory
from tests.client.test_consumer import read
from tests.support.target import Target

from moldau import Consumer, Producer
from moldau.model import OffsetAndMetadata, TopicPartition


def test_what_is_aborted_is_read_again_and_written_once(cluster: Target) -> None:
    new_topic = topic_factory(cluster.bootstrap)
    source, target = new_topic(), new_topic()
    servers, group = cluster.bootstrap, f"group-{uuid.uuid4().hex[:8]}"
    settings: dict[str, Any] = {
        "bootstrap_servers": servers,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
    }
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_many(source, [b"%d" % number for number in range(5)], partition=0).result(60)
    with Producer(bootstrap_servers=servers, transactional_id=group) as producer:
        producer.init_transactions()
        for aborted in (True, False):
            with Consumer(group_id=group, **settings) as consumer:
                consumer.subscribe([source])
                records = read(consumer, 5)
                assert [record.offset for record in records] == list(range(5))
                producer.begin_transaction()
                for record in records:
                    producer.send(target, b"processed " + record.value, partition=0)
                producer.send_offsets_to_transaction(
                    {TopicPartition(source, 0): OffsetAndMetadata(5)}, consumer.group_metadata()
                )
                if aborted:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
    with Consumer(group_id=group, **settings) as consumer:
        committed = consumer.committed([TopicPartition(source, 0)])
        assert committed == {TopicPartition(source, 0): OffsetAndMetadata(5)}
    with Consumer(**settings) as consumer:
        consumer.assign([TopicPartition(target, 0)])
        found = [record.value for record in read(consumer, 5)]
        assert found == [b"processed %d" % number for number in range(5)]
        assert not consumer.poll(0.3)

"""The fixtures that users get, in pytest sessions of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\naddopts = -p no:randomly -p no:cacheprovider\n")
    return pytester


def test_a_test_gets_a_broker_and_a_fresh_topic(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import socket
        from confluent_kafka import Consumer, Producer, TopicPartition

        seen = []

        def test_round_trip(moldau_broker, moldau_topic):
            producer = Producer({"bootstrap.servers": moldau_broker.bootstrap_servers})
            producer.produce(moldau_topic, b"hello", key=b"k")
            assert producer.flush(120) == 0
            consumer = Consumer(
                {
                    "bootstrap.servers": moldau_broker.bootstrap_servers,
                    "group.id": "unused",
                    "enable.auto.commit": False,
                }
            )
            consumer.assign([TopicPartition(moldau_topic, 0, 0)])
            message = consumer.poll(120)
            assert (message.key(), message.value()) == (b"k", b"hello")
            consumer.close()
            seen.append((moldau_broker.pid, moldau_topic))

        def test_another_topic_on_the_same_broker(moldau_broker, moldau_topic):
            socket.create_connection((moldau_broker.host, moldau_broker.port)).close()
            ((pid, topic),) = seen
            assert moldau_broker.pid == pid
            assert moldau_topic != topic
        """
    )
    run.runpytest_subprocess().assert_outcomes(passed=2)


def test_topics_have_partitions_and_settings(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pytest
        from confluent_kafka.admin import AdminClient, ConfigResource

        def describe(broker, topic):
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            return admin, admin.list_topics(topic, timeout=120).topics[topic]

        @pytest.mark.parametrize("moldau_topic", [3], indirect=True)
        def test_partitions(moldau_broker, moldau_topic):
            assert len(describe(moldau_broker, moldau_topic)[1].partitions) == 3

        def test_settings(moldau_broker):
            name = moldau_broker.create_topic(
                "configured", partitions=2, retention_ms=1234, preallocate=True
            )
            admin, topic = describe(moldau_broker, name)
            assert len(topic.partitions) == 2
            resource = ConfigResource(ConfigResource.Type.TOPIC, name)
            configs = admin.describe_configs([resource])[resource].result(120)
            assert configs["retention.ms"].value == "1234"
            assert configs["preallocate"].value == "true"

        async def test_inside_an_event_loop(moldau_broker):
            moldau_broker.create_topic("from-a-coroutine")
        """
    )
    run.makeini("[pytest]\naddopts = -p no:randomly -p no:cacheprovider\nasyncio_mode = auto\n")
    run.runpytest_subprocess().assert_outcomes(passed=3)


def test_the_broker_ends_also_after_failures(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import pathlib

        def test_fails(moldau_broker):
            pathlib.Path("left").write_text(f"{moldau_broker.pid} {moldau_broker.directory}")
            assert False
        """
    )
    result = run.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Moldau broker log*"])
    pid, directory = (run.path / "left").read_text().split()
    assert not Path(f"/proc/{pid}").exists()
    assert not Path(directory).exists()


def test_who_does_not_use_it_does_not_pay(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        import sys

        def test_nothing_is_imported():
            loaded = {name for name in sys.modules if name.startswith(("moldau", "kio", "uvloop"))}
            own = {"moldau", "moldau.source", "moldau.testing", "moldau.testing.pytest_plugin"}
            own |= {"moldau.spark", "moldau.spark.testing"}  # the other plugin, as small as this
            assert loaded <= own
            assert "pyspark" not in sys.modules
        """
    )
    run.runpytest_subprocess("-p", "no:asyncio").assert_outcomes(passed=1)


def test_a_test_gets_a_cluster(run: pytest.Pytester) -> None:
    run.makepyfile(
        """
        from confluent_kafka.admin import AdminClient

        def test_three_brokers(moldau_cluster):
            admin = AdminClient({"bootstrap.servers": moldau_cluster.bootstrap_servers})
            topic = moldau_cluster.create_topic("orders", partitions=2)
            metadata = admin.list_topics(topic, timeout=120)
            assert sorted(metadata.brokers) == [1, 2, 3]
            for partition in metadata.topics[topic].partitions.values():
                assert sorted(partition.replicas) == [1, 2, 3]
        """
    )
    run.runpytest_subprocess().assert_outcomes(passed=1)

"""Node contents as Kafka writes them: from Kafka's own JSON and back."""

from __future__ import annotations

import json
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.coordination import paths, znodes
from moldau.coordination.errors import StoreCorruptError
from moldau.coordination.znodes import (
    BrokerRegistration,
    Endpoint,
    ProducerIdBlock,
    StateNode,
    TopicNode,
)


def test_paths_are_kafkas() -> None:
    assert paths.broker_id(7) == "/brokers/ids/7"
    assert paths.topic("t") == "/brokers/topics/t"
    assert paths.partition_state("t", 3) == "/brokers/topics/t/partitions/3/state"
    assert paths.delete_topic("t") == "/admin/delete_topics/t"
    assert paths.topic_config("t") == "/config/topics/t"
    assert paths.broker_config("7") == "/config/brokers/7"
    assert paths.broker_config("") == "/config/brokers/<default>"


@given(
    st.builds(
        StateNode,
        st.integers(0, 2**31 - 1),
        st.integers(-2, 2**31 - 1),
        st.integers(-1, 2**31 - 1),
        st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple),
        st.sampled_from([0, 1]),
    )
)
@settings(max_examples=100, deadline=None)
def test_partition_states_are_json_and_come_back(state: StateNode) -> None:
    data = znodes.encode_state(state)
    assert json.loads(data)["version"] == 1
    assert ("leader_recovery_state" in json.loads(data)) == (state.leader_recovery_state != 0)
    assert znodes.decode_state(data, "t", 0) == state


def test_a_partition_state_written_by_kafka_is_read() -> None:
    data = b'{"controller_epoch":3,"leader":2,"version":1,"leader_epoch":5,"isr":[2,1]}'
    assert znodes.decode_state(data, "t", 0) == StateNode(3, 2, 5, (2, 1))


def test_topics_come_back() -> None:
    node = TopicNode({0: (1, 2), 1: (2, 1)}, UUID(int=77), {1: (2,)}, {0: (2,)})
    assert znodes.decode_topic("t", znodes.encode_topic(node)) == node


def test_a_topic_from_before_ids_is_read() -> None:
    data = b'{"version":1,"partitions":{"1":[2,1],"0":[1,2]}}'
    assert znodes.decode_topic("t", data) == TopicNode({1: (2, 1), 0: (1, 2)})


@given(st.uuids())
@settings(max_examples=100, deadline=None)
def test_ids_are_written_in_kafkas_base64(topic_id: UUID) -> None:
    text = znodes.id_to_text(topic_id)
    assert len(text) == 22
    assert znodes.id_from_text(text) == topic_id


def test_an_id_of_kafkas_is_read() -> None:
    assert znodes.id_from_text("S5qzGHD7SVWXRYiRmQB_MA") == UUID(
        "4b9ab318-70fb-4955-9745-889199007f30"
    )


@pytest.mark.parametrize("text", ["", "short", "S5qzGHD7SVWXRYiRmQB_MAxx", "€" * 22])
def test_what_is_no_id_is_reported(text: str) -> None:
    with pytest.raises(StoreCorruptError):
        znodes.id_from_text(text)


def test_brokers_come_back_with_all_listeners() -> None:
    broker = BrokerRegistration(
        3,
        (
            Endpoint("INTERNAL", "10.0.0.1", 9093, "PLAINTEXT"),
            Endpoint("CLIENT", "::1", 9092, "SASL_SSL"),
        ),
        rack="a",
        epoch=17,
        intact_since=9,
    )
    data = znodes.encode_broker(broker, 1234)
    registered = json.loads(data)
    assert registered["endpoints"] == ["INTERNAL://10.0.0.1:9093", "CLIENT://[::1]:9092"]
    assert (registered["host"], registered["port"], registered["rack"]) == ("10.0.0.1", 9093, "a")
    assert registered["timestamp"] == "1234"
    assert znodes.decode_broker(3, data, 17) == broker
    # One that does not say since when its records are whole says: since it came.
    new = znodes.encode_broker(msgspec.structs.replace(broker, intact_since=-1), 1234)
    assert znodes.decode_broker(3, new, 17).intact_since == 17


def test_a_broker_without_plaintext_listener_has_no_legacy_address() -> None:
    broker = BrokerRegistration(3, (Endpoint("SSL", "h", 9092, "SSL"),))
    registered = json.loads(znodes.encode_broker(broker, 0))
    assert (registered["host"], registered["port"]) == (None, -1)


def test_small_nodes_come_back() -> None:
    assert znodes.decode_controller(znodes.encode_controller(5, 99)) == 5
    assert znodes.decode_controller_epoch(znodes.encode_controller_epoch(12)) == 12
    assert znodes.decode_config(znodes.encode_config({"a": "b"}), "/x") == {"a": "b"}
    assert znodes.decode_config(b"", "/x") == {}
    assert znodes.decode_cluster_id(znodes.encode_cluster_id("abc")) == "abc"
    block = ProducerIdBlock(1, 0, 2**63 - 1)
    assert znodes.decode_producer_id_block(znodes.encode_producer_id_block(block)) == block


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"leader":"x"}', b"\xff"])
def test_unreadable_nodes_are_reported_by_name(data: bytes) -> None:
    with pytest.raises(StoreCorruptError, match="topic orders"):
        znodes.decode_topic("orders", data)
    with pytest.raises(StoreCorruptError, match="orders-3"):
        znodes.decode_state(data, "orders", 3)
    with pytest.raises(StoreCorruptError, match="/brokers/ids/4"):
        znodes.decode_broker(4, data, 0)
    with pytest.raises(StoreCorruptError):
        znodes.decode_controller_epoch(data)


def test_text_that_is_none_is_unreadable() -> None:
    with pytest.raises(StoreCorruptError, match="topic orders"):
        znodes.decode_topic("orders", b'{"version":3,"topic_id":"\xff","partitions":{}}')
    with pytest.raises(StoreCorruptError, match="/x"):
        znodes.decode_config(znodes.encode_config({"a": "b"}).replace(b'"b"', b'"\xff"'), "/x")

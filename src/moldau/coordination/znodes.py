"""What the nodes hold: Kafka's JSON (its ``ZkData``), so each side reads the other's store."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID

import msgspec

from moldau.coordination.errors import StoreCorruptError

T = TypeVar("T")

RECOVERED, RECOVERING = 0, 1
"""Leader recovery states: RECOVERING from an unclean election until the leader says it is done."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where a broker listens, as advertised."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class BrokerRegistration(msgspec.Struct, frozen=True):
    """A live broker. ``epoch`` is the czxid of its node: each life of a broker has its own."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1
    intact_since: int = -1
    """The first of its lives since which it has lost no record; -1: not known, or not before it is
    registered."""
    min_insync_replicas: int = 1
    """What its file says, for topics that do not."""


class TopicNode(msgspec.Struct, frozen=True):
    """/brokers/topics/[t]: who holds which partition."""

    partitions: dict[int, tuple[int, ...]]
    topic_id: UUID | None = None
    adding: dict[int, tuple[int, ...]] = {}
    removing: dict[int, tuple[int, ...]] = {}


class StateNode(msgspec.Struct, frozen=True, gc=False):
    """/brokers/topics/[t]/partitions/[n]/state: leader and in-sync replicas.

    The last three are not Kafka's, whose readers pass over them: eligible leaders that are not in
    sync, who led before nobody did, and the broker epochs of ``isr`` and ``elr``.
    """

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int = RECOVERED
    elr: tuple[int, ...] = ()
    last_known_leader: int = -1
    broker_epochs: tuple[int, ...] = ()


class ProducerIdBlock(msgspec.Struct, frozen=True):
    """/latest_producer_id_block: the ids last handed out, both ends included."""

    broker: int
    block_start: int
    block_end: int


class _TopicJson(msgspec.Struct):
    partitions: dict[int, tuple[int, ...]]
    topic_id: str | None = None
    adding_replicas: dict[int, tuple[int, ...]] = {}
    removing_replicas: dict[int, tuple[int, ...]] = {}


class _BrokerJson(msgspec.Struct):
    endpoints: list[str]
    listener_security_protocol_map: dict[str, str] = {}
    rack: str | None = None
    intact_since: int | None = None
    min_insync_replicas: int = 1


class _ControllerJson(msgspec.Struct):
    brokerid: int


class _ConfigJson(msgspec.Struct):
    config: dict[str, str] = {}


class _ClusterIdJson(msgspec.Struct):
    id: str


class _SecretJson(msgspec.Struct):
    secret: str


class _ProducerIdJson(msgspec.Struct):
    broker: int
    block_start: str
    block_end: str


_decode_state = msgspec.json.Decoder(StateNode).decode
_decode_topic = msgspec.json.Decoder(_TopicJson).decode
_encode = msgspec.json.Encoder().encode
_FROM_URL_SAFE = str.maketrans("-_", "+/")


def _decode(data: bytes, kind: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreCorruptError(f"node {path} cannot be read: {error}", path=path) from error


def id_to_text(topic_id: UUID) -> str:
    """Returns a UUID as Kafka writes it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def id_from_text(text: str) -> UUID:
    try:
        return UUID(bytes=binascii.a2b_base64(text.translate(_FROM_URL_SAFE) + "=="))
    except ValueError as error:
        raise StoreCorruptError(f"{text!r} is not a topic id") from error


def encode_controller(broker: int, now_ms: int) -> bytes:
    return _encode(
        {"version": 2, "brokerid": broker, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes) -> int:
    return _decode(data, _ControllerJson, "/controller").brokerid


def encode_controller_epoch(epoch: int) -> bytes:
    return b"%d" % epoch


def decode_controller_epoch(data: bytes) -> int:
    try:
        return int(data)
    except ValueError as error:
        raise StoreCorruptError(f"{data!r} is not a controller epoch") from error


def encode_broker(registration: BrokerRegistration, now_ms: int) -> bytes:
    plaintext = next(
        (e for e in registration.endpoints if e.security_protocol == "PLAINTEXT"), None
    )
    fields: dict[str, object] = {
        "version": 5,
        "host": plaintext.host if plaintext is not None else None,
        "port": plaintext.port if plaintext is not None else -1,
        "endpoints": [str(endpoint) for endpoint in registration.endpoints],
        "jmx_port": -1,
        "timestamp": str(now_ms),
        "listener_security_protocol_map": {
            endpoint.listener: endpoint.security_protocol for endpoint in registration.endpoints
        },
        "features": {},
    }
    if registration.rack is not None:
        fields["rack"] = registration.rack
    # Not Kafka's, whose readers pass over them.
    if registration.intact_since >= 0:
        fields["intact_since"] = registration.intact_since
    if registration.min_insync_replicas != 1:
        fields["min_insync_replicas"] = registration.min_insync_replicas
    return _encode(fields)


def decode_broker(broker: int, data: bytes, epoch: int) -> BrokerRegistration:
    node = _decode(data, _BrokerJson, f"/brokers/ids/{broker}")
    endpoints = []
    for text in node.endpoints:
        listener, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        protocol = node.listener_security_protocol_map.get(listener, listener)
        endpoints.append(Endpoint(listener, host.strip("[]"), int(port), protocol))
    intact_since = epoch if node.intact_since is None else node.intact_since
    return BrokerRegistration(
        broker, tuple(endpoints), node.rack, epoch, intact_since, node.min_insync_replicas
    )


def encode_topic(node: TopicNode) -> bytes:
    fields: dict[str, object] = {
        "version": 3,
        "partitions": node.partitions,
        "adding_replicas": node.adding,
        "removing_replicas": node.removing,
    }
    if node.topic_id is not None:
        fields["topic_id"] = id_to_text(node.topic_id)
    return _encode(fields)


def decode_topic(name: str, data: bytes) -> TopicNode:
    try:
        node = _decode_topic(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreCorruptError(f"the node of topic {name} cannot be read: {error}") from error
    topic_id = id_from_text(node.topic_id) if node.topic_id is not None else None
    return TopicNode(node.partitions, topic_id, node.adding_replicas, node.removing_replicas)


def encode_state(state: StateNode) -> bytes:
    # Written by hand: ten thousand of these are written when a broker with as many partitions
    # starts, and Kafka's fixed "version" is not worth a field in the struct.
    isr = ",".join(map(str, state.isr))
    more = ""
    if state.leader_recovery_state != RECOVERED:
        more = f',"leader_recovery_state":{state.leader_recovery_state}'
    if state.elr:
        more += f',"elr":[{",".join(map(str, state.elr))}]'
    if state.last_known_leader >= 0:
        more += f',"last_known_leader":{state.last_known_leader}'
    if state.broker_epochs:
        more += f',"broker_epochs":[{",".join(map(str, state.broker_epochs))}]'
    return (
        f'{{"controller_epoch":{state.controller_epoch},"leader":{state.leader},"version":1,'
        f'"leader_epoch":{state.leader_epoch},"isr":[{isr}]{more}}}'
    ).encode()


def decode_state(data: bytes, topic: str, partition: int) -> StateNode:
    try:
        return _decode_state(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreCorruptError(
            f"the state of partition {topic}-{partition} cannot be read: {error}"
        ) from error


def encode_config(config: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(config)})


def decode_config(data: bytes, path: str) -> dict[str, str]:
    return _decode(data, _ConfigJson, path).config if data else {}


def encode_quotas(quotas: Mapping[str, float], others: Mapping[str, str] = {}) -> bytes:
    """``others``: what else the node holds."""
    values = {
        key: str(int(value)) if value % 1 == 0 else repr(value) for key, value in quotas.items()
    }
    return encode_config({**others, **values})


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return _decode(data, _ClusterIdJson, "/cluster/id").id


class SecretVerifier(msgspec.Struct, frozen=True):
    """/cluster/secret_verifier: tells the cluster's secret from another, to who knows one."""

    salt: str
    iterations: int
    key: str
    """Both in hexadecimal digits; the key is PBKDF2-HMAC-SHA-256 of the secret."""
    version: int = 1


def encode_secret_verifier(verifier: SecretVerifier) -> bytes:
    return msgspec.json.encode(verifier)


def decode_secret_verifier(data: bytes) -> SecretVerifier:
    return _decode(data, SecretVerifier, "/cluster/secret_verifier")


def encode_secret(secret: str) -> bytes:
    return _encode({"version": 1, "secret": secret})


def decode_secret(data: bytes) -> str:
    return _decode(data, _SecretJson, "/cluster/secret").secret


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return _encode(
        {
            "version": 1,
            "broker": block.broker,
            "block_start": str(block.block_start),
            "block_end": str(block.block_end),
        }
    )


def decode_producer_id_block(data: bytes) -> ProducerIdBlock:
    node = _decode(data, _ProducerIdJson, "/latest_producer_id_block")
    return ProducerIdBlock(node.broker, int(node.block_start), int(node.block_end))

"""How two brokers make sure of each other: SCRAM-SHA-256 with the cluster's secret.

What is claimed (which cluster, who asks, who is meant) is the user name of the exchange, so that
both proofs are about it: a middleman cannot change it, an answer from another broker than the one
that was meant is no answer, and messages that a broker has sent cannot be turned against itself. A
proof is good for one connection, since both sides add a nonce to it.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final, NamedTuple, Self

from moldau.broker.private_exchange import ask
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import Machine
from moldau.net.broker_connection import BrokerConnection
from moldau.request_errors import AuthenticationError
from moldau.security.scram import MIN_ITERATIONS, Scram
from moldau.security.scram_server import ScramKeys, ScramServer
from moldau.wire.private import PrivateApi

_MECHANISM: Final = "SCRAM-SHA-256"
_RANDOM_BYTES: Final = 24
_PARTS: Final = 4


class Claim(NamedTuple):
    """What a broker says when it connects to another."""

    cluster_id: str
    sender: int
    sender_epoch: int
    target: int

    def __str__(self) -> str:
        return "/".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Self:
        parts = text.rsplit("/", _PARTS - 1)
        try:
            cluster_id, sender, epoch, target = parts
            return cls(cluster_id, int(sender), int(epoch), int(target))
        except ValueError:
            raise AuthenticationError(
                ErrorCode.SASL_AUTHENTICATION_FAILED, "The peer does not say which broker it is."
            ) from None


async def authenticate(
    connection: BrokerConnection, claim: Claim, secret: str, machine: Machine, *, within: float
) -> None:
    """Show who we are, and have the other side show who it is; raises KafkaError."""
    scram = Scram(_MECHANISM, str(claim), secret, _nonce(machine))
    message = scram.respond(b"")
    while message is not None:
        answer: bytes = await ask(
            connection, PrivateApi.AUTHENTICATE_BROKER, message, answer=bytes, within=within
        )
        message = scram.respond(answer)


class PeerAuthentication:
    """The side that is connected to."""

    def __init__(self, machine: Machine, cluster_id: str, node_id: int, secret: str) -> None:
        self._machine = machine
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._secret = secret
        self._made_keys: ScramKeys | None = None

    def begin(self, message: bytes) -> tuple[ScramServer, bytes]:
        """Returns the exchange that a peer has begun, and what to answer."""
        exchange = ScramServer(_MECHANISM, _nonce(self._machine))
        exchange.begin(message)
        self._check(Claim.parse(exchange.username))
        return exchange, exchange.challenge(self._keys())

    def finish(self, exchange: ScramServer, message: bytes) -> tuple[Claim, bytes]:
        """Returns who the peer has shown to be, and what to answer."""
        answer = exchange.finish(message)
        return Claim.parse(exchange.username), answer

    def _check(self, claim: Claim) -> None:
        if claim.cluster_id != self._cluster_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"This broker belongs to cluster {self._cluster_id}, not to {claim.cluster_id}.",
            )
        if claim.target != self._node_id:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"This is broker {self._node_id}, not broker {claim.target}.",
            )
        if claim.sender == self._node_id or claim.sender < 0:
            raise AuthenticationError(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"The peer cannot be broker {claim.sender}.",
            )

    def _keys(self) -> ScramKeys:
        """Made once, so that whoever connects without the secret costs next to nothing."""
        if self._made_keys is None:
            salt = self._machine.secrets.randbytes(_RANDOM_BYTES)
            self._made_keys = ScramKeys.of(_MECHANISM, self._secret, salt, MIN_ITERATIONS)
        return self._made_keys


def _nonce(machine: Machine) -> str:
    return urlsafe_b64encode(machine.secrets.randbytes(_RANDOM_BYTES)).decode()

"""Which broker another one has shown to be, and what cannot be turned against it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.unit.broker.peers_world import CLUSTER, SECRET

from moldau.broker.peer_authentication import Claim, PeerAuthentication
from moldau.errors import ErrorCode, KafkaError
from moldau.security.scram import Scram


class Chance:
    """All that authentication takes from a machine."""

    def __init__(self, seed: int) -> None:
        self.secrets = Random(seed)


def server(node_id: int = 2, secret: str = SECRET, seed: int = 1) -> PeerAuthentication:
    machine: Any = Chance(seed)
    return PeerAuthentication(machine, CLUSTER, node_id, secret)


def client(claim: Claim, secret: str = SECRET) -> Scram:
    return Scram("SCRAM-SHA-256", str(claim), secret, "nonce")


CLAIM = Claim(CLUSTER, sender=1, sender_epoch=57, target=2)


@pytest.mark.parametrize("cluster", [CLUSTER, "a/b", "-1/2/3/4"])
def test_a_claim_survives_its_text(cluster: str) -> None:
    claim = Claim(cluster, 3, -1, 2)
    assert Claim.parse(str(claim)) == claim


@pytest.mark.parametrize("text", ["", "user", "a/b/c/d", "a/1/2", "a/1/2/x"])
def test_other_names_are_no_claims(text: str) -> None:
    with pytest.raises(KafkaError):
        Claim.parse(text)


def test_a_broker_that_knows_the_secret_is_known_afterwards() -> None:
    scram, authentication = client(CLAIM), server()
    exchange, challenge = authentication.begin(scram.respond(b"") or b"")
    claim, answer = authentication.finish(exchange, scram.respond(challenge) or b"")
    assert claim == CLAIM
    assert scram.respond(answer) is None


@pytest.mark.parametrize(
    ("claim", "code"),
    [
        (CLAIM._replace(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (CLAIM._replace(target=3), ErrorCode.BROKER_NOT_AVAILABLE),
        (CLAIM._replace(sender=2), ErrorCode.SASL_AUTHENTICATION_FAILED),
        (CLAIM._replace(sender=-1), ErrorCode.SASL_AUTHENTICATION_FAILED),
    ],
)
def test_a_claim_that_cannot_be_is_refused_before_any_proof(claim: Claim, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        server().begin(client(claim).respond(b"") or b"")
    assert refused.value.code is code


def test_the_secret_of_another_cluster_does_not_help() -> None:
    scram, authentication = client(CLAIM, "wrong"), server()
    exchange, challenge = authentication.begin(scram.respond(b"") or b"")
    with pytest.raises(KafkaError):
        authentication.finish(exchange, scram.respond(challenge) or b"")


def test_what_a_broker_sends_cannot_be_reflected_to_it() -> None:
    """Broker 1 asks for broker 2; whoever sits between asks broker 1 in its own words."""
    with pytest.raises(KafkaError):
        server(node_id=1).begin(client(CLAIM).respond(b"") or b"")


def test_another_broker_cannot_answer_for_the_one_that_is_meant() -> None:
    """A middleman may name another target on the way, but the proof is about the one meant."""
    scram, authentication = client(CLAIM), server(node_id=3)
    first = (scram.respond(b"") or b"").replace(b"/57/2", b"/57/3")
    exchange, challenge = authentication.begin(first)
    with pytest.raises(KafkaError):
        authentication.finish(exchange, scram.respond(challenge) or b"")


def test_a_recorded_login_cannot_be_played_again() -> None:
    scram, authentication = client(CLAIM), server()
    first = scram.respond(b"") or b""
    exchange, challenge = authentication.begin(first)
    proof = scram.respond(challenge) or b""
    authentication.finish(exchange, proof)
    again, _ = authentication.begin(first)
    with pytest.raises(KafkaError):
        authentication.finish(again, proof)

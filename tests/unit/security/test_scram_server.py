"""The server's half of SCRAM: the exchange of RFC 7677, and peers that cannot be trusted."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.request_errors import AuthenticationError
from moldau.security.scram import Scram, State
from moldau.security.scram_server import ScramKeys, ScramServer, ServerState

MECHANISM = "SCRAM-SHA-256"
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
KEYS = ScramKeys.of(MECHANISM, "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def challenged(nonce: str = SERVER_NONCE) -> ScramServer:
    server = ScramServer(MECHANISM, nonce)
    server.begin(FIRST)
    server.challenge(KEYS)
    return server


def test_the_exchange_of_rfc_7677() -> None:
    server = ScramServer(MECHANISM, SERVER_NONCE)
    server.begin(FIRST)
    assert server.username == "user"
    assert server.challenge(KEYS) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert server.finish(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.state is ServerState.DONE


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["user", "a=b,c", "=2C", "cluster/1/5/2", "ß"])
def test_both_halves_understand_each_other(name: str, user: str) -> None:
    client, server = Scram(name, user, "secret", "abc"), ScramServer(name, "def")
    server.begin(client.respond(b"") or b"")
    assert server.username == user
    proof = client.respond(server.challenge(ScramKeys.of(name, "secret", b"salt", 4096)))
    assert client.respond(server.finish(proof or b"")) is None
    assert client.state is State.DONE


def test_a_wrong_password_is_no_proof() -> None:
    client = Scram(MECHANISM, "user", "pen", CLIENT_NONCE)
    client.respond(b"")
    server = ScramServer(MECHANISM, SERVER_NONCE)
    server.begin(FIRST)
    proof = client.respond(server.challenge(KEYS))
    with pytest.raises(AuthenticationError, match="does not know the password"):
        server.finish(proof or b"")
    assert server.state is ServerState.FAILED


def test_a_proof_of_an_earlier_login_is_worth_nothing() -> None:
    with pytest.raises(AuthenticationError, match="another login"):
        challenged(nonce="another").finish(FINAL)


def test_a_failed_login_cannot_go_on() -> None:
    server = challenged()
    with pytest.raises(AuthenticationError):
        server.finish(FINAL.replace(b"p=d", b"p=e"))
    with pytest.raises(AuthenticationError, match="out of turn"):
        server.finish(FINAL)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"n,,",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,a=other,n=user,r=abc",
        b"n,,r=abc,n=user",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=user,r=abc,tokenauth=true",
        b"n,,m=ext,n=user,r=abc",
    ],
)
def test_a_first_message_that_makes_no_sense_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationError):
        ScramServer(MECHANISM, SERVER_NONCE).begin(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        FINAL[:-1],
        FINAL.replace(b"biws", b"eSws"),
        FINAL.replace(b"k0,", b"k0"),
        FINAL.replace(b"k0,", b"k0,x=1,"),
        FINAL.replace(b"p=d", b"p=!"),
        FINAL.rpartition(b"p=")[0] + b"p=AAAA",
    ],
)
def test_a_last_message_that_makes_no_sense_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationError):
        challenged().finish(message)


@given(first=st.binary(max_size=80), final=st.binary(max_size=120))
def test_nothing_but_a_proof_gets_in(first: bytes, final: bytes) -> None:
    def log_in() -> None:
        server = ScramServer(MECHANISM, SERVER_NONCE)
        server.begin(first)
        server.challenge(KEYS)
        server.finish(final)

    with pytest.raises(AuthenticationError):
        log_in()

"""SCRAM: the exchanges of the RFCs, and brokers that cannot be trusted."""

from __future__ import annotations

import base64

import pytest

from moldau.client.errors import AuthenticationError
from moldau.errors import ErrorCode
from moldau.security.scram import MAX_ITERATIONS, Scram, State, salted_password

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(name: str = "SCRAM-SHA-256", nonce: str = NONCE) -> Scram:
    return Scram(name, "user", "pencil", nonce=nonce)


def started() -> Scram:
    login = scram()
    login.respond(b"")
    return login


def test_the_exchange_of_rfc_7677() -> None:
    login = scram()
    assert login.respond(b"") == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert login.respond(FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert login.respond(FINAL) is None
    assert login.state is State.DONE


def test_sha_512_salts_as_its_name_says() -> None:
    """RFC 5802's construction with the longer hash; the length gives a wrong one away."""
    login = scram("SCRAM-SHA-512")
    login.respond(b"")
    answer = login.respond(FIRST)
    assert answer is not None
    assert len(base64.b64decode(answer.rpartition(b",p=")[2])) == 64
    assert len(salted_password("SCRAM-SHA-512", "pencil", b"salt", 4096)) == 64


def test_the_salted_password_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salted_password("SCRAM-SHA-256", "pencil", salt, 4096)
    assert salted.hex() == "c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d"


def test_names_are_escaped_and_tokens_announced() -> None:
    login = Scram("SCRAM-SHA-256", "a=b,c", "x", token=True, nonce="n")
    assert login.respond(b"") == b"n,,n=a=3Db=2Cc,r=n,tokenauth=true"


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"r=somebody-else,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095", "4095 iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=many", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=" + b"9" * 5000, r"9…\(4980 more\)…9+ iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=" + b"0" * 5000 + b"4096", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=\x1b[31m", r"\\x1b\[31m iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=-4096", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==", "no iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=!!!,i=4096", "makes no sense"),
        (b"m=new,r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "extension"),
        (b"\xff\xfe", "no text"),
        (b"", "makes no sense"),
    ],
)
def test_a_first_message_that_cannot_be_trusted_ends_the_login(first: bytes, why: str) -> None:
    with pytest.raises(AuthenticationError, match=why) as caught:
        started().respond(first)
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not caught.value.retriable


def test_no_more_iterations_than_a_client_can_afford() -> None:
    assert MAX_ITERATIONS >= 16_384  # what Kafka allows


@pytest.mark.parametrize(
    ("final", "why"),
    [
        (b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "signature is wrong"),
        (b"v=", "signature is wrong"),
        (b"x=y", "signature is wrong"),
        (b"e=other-error", "other-error"),
        (b"e=\n\x1b[31m", r"\\n\\x1b\[31m"),
        (b"", "makes no sense"),
    ],
)
def test_a_broker_that_does_not_know_the_password_is_found_out(final: bytes, why: str) -> None:
    login = started()
    login.respond(FIRST)
    with pytest.raises(AuthenticationError, match=why):
        login.respond(final)
    assert login.state is not State.DONE


def test_nothing_follows_the_end() -> None:
    login = started()
    login.respond(FIRST)
    login.respond(FINAL)
    with pytest.raises(AuthenticationError, match="after the end"):
        login.respond(b"")

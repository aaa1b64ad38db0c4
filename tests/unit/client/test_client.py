"""The client of the command line: whose settings hold."""

from __future__ import annotations

from moldau.client.client import Client

CONFIG = {"socket.connection.setup.timeout.ms": "5", "request.timeout.ms": "7000"}


def test_what_the_program_does_not_say_is_left_to_the_settings() -> None:
    settings = Client("localhost", config=CONFIG).cluster.settings
    assert settings.socket_connection_setup_timeout_ms == 5
    assert settings.request_timeout_ms == 7000


def test_what_the_program_says_wins() -> None:
    assert Client("localhost", request_timeout=2.5, config=CONFIG).cluster.request_timeout == 2.5

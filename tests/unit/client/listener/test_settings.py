"""Topics of a listener, and the ones that it writes itself."""

from __future__ import annotations

import re
from typing import Any

import pytest

from moldau import Listener
from moldau.client.errors import ConfigError
from moldau.client.listener.settings import read_topics


def test_names() -> None:
    assert read_topics("orders") == (("orders",), None)
    assert read_topics(["orders", "mails"]) == (("orders", "mails"), None)


@pytest.mark.parametrize(
    ("topic", "matches"),
    [
        ("orders", True),
        ("Orders.eu", True),
        ("orders.dlq.eu", True),
        ("orders.retry.soon", True),
        ("orders.dlq", False),
        ("orders.retry.60000", False),
        ("graveyard", False),
    ],
)
def test_a_pattern_leaves_out_retries_and_dead_letters(topic: str, matches: bool) -> None:
    for text in (".*", "orders.*|graveyard"):
        _, pattern = read_topics(re.compile(text, re.IGNORECASE), "graveyard")
        assert pattern is not None
        assert bool(pattern.search(topic)) == matches
        assert bool(pattern.fullmatch(topic)) == matches


def test_flags_inside_of_a_pattern_are_refused() -> None:
    with pytest.raises(ConfigError, match="give flags to"):
        read_topics(re.compile("(?i)orders"))


SETTINGS: dict[str, Any] = {"bootstrap_servers": "localhost:9092", "group_id": "g"}


def test_what_is_wrong_is_said_before_it_starts() -> None:
    with pytest.raises(ConfigError, match="did you mean 'concurrency'"):
        Listener("orders", print, concurency=2, **SETTINGS)
    with pytest.raises(ConfigError, match="a function that takes a record"):
        Listener("orders", None, **SETTINGS)  # type: ignore[arg-type]


def test_a_listener_says_what_it_listens_to() -> None:
    assert repr(Listener("orders", print, **SETTINGS)) == "<Listener of ['orders'] in group 'g'>"

"""Topics of a listener, and the ones that it writes itself."""

from __future__ import annotations

import re

import pytest

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

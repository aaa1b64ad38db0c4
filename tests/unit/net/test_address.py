"""Bootstrap servers as people write them."""

import pytest

from moldau.net.address import parse_bootstrap, show


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9093", [("localhost", 9093)]),
        ("localhost", [("localhost", 9092)]),
        ("a:1, b:2,,c", [("a", 1), ("b", 2), ("c", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("fe80::1", [("fe80::1", 9092)]),
    ],
)
def test_addresses(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize(
    "text", ["", " , ", "kafka://a:1", "a:b", "a:0", "a:70000", ":9092", "[::1", "[::1]x"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"bootstrap server|is not an address"):
        parse_bootstrap(text)


def test_ipv6_is_shown_with_brackets() -> None:
    assert show("::1", 9092) == "[::1]:9092"
    assert show("a", 1) == "a:1"

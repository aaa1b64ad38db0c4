"""``sasl.jaas.config`` as Java's programs write it."""

from __future__ import annotations

import pytest

from moldau.config.option import ConfigError
from moldau.security.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_the_usual_line() -> None:
    found = parse_jaas(f'{PLAIN} required username="alice" password="alice-secret";')
    assert (found.module, found.name) == (PLAIN, "PlainLoginModule")
    assert found.options == {"username": "alice", "password": "alice-secret"}


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ('X required password="a b;c=d//e";', "a b;c=d//e"),
        (r'X required password="say \"hi\" \\ \n";', 'say "hi" \\ \n'),
        ("X required password='single';", "single"),
        ("X REQUIRED password=word-1_2;", "word-1_2"),
        ('X\n  required // a comment\n /* another */ password = "x"\n ;\n', "x"),
        ('X required password="";', ""),
        ('X required password="ž€";', "ž€"),
    ],
)
def test_values(text: str, password: str) -> None:
    assert parse_jaas(text).options == {"password": password}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('X required password="hush-hush"', "semicolon"),
        ("", "semicolon"),
        (";", "does not begin with a login module"),
        ("X;", "does not begin with a login module"),
        ('X password="hush-hush";', "no flag"),
        ('X required password="hush-hush;', "quotation mark"),
        ('X required "hush-hush";', "do not look like"),
        ("X required password=;", "do not look like|no value"),
        ("X required password= = x;", "no value|do not look like"),
        ('X required a="hush-hush"; Y required b="c";', "several login modules"),
    ],
)
def test_mistakes_are_explained_without_the_password(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        parse_jaas(text)
    assert "hush-hush" not in str(caught.value)


def test_nobody_sees_the_password_by_printing_it() -> None:
    assert "hush-hush" not in repr(parse_jaas('X required password="hush-hush";'))

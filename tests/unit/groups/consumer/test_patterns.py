"""Patterns of topic names: RE2's syntax, whole names, and never long."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.errors import ErrorCode, KafkaError
from moldau.groups.consumer.patterns import matching


def matches(pattern: str, name: str) -> bool:
    return bool(matching(pattern, [name]))


@st.composite
def pattern_texts(draw: st.DrawFn, depth: int = 3) -> str:
    """Patterns that mean the same to Python and to RE2."""
    if depth == 0:
        return draw(st.sampled_from(["a", "b", "-", r"\.", ".", "[ab]", "[^a]", r"\w", r"\d", ""]))
    smaller = pattern_texts(depth=depth - 1)
    kind = draw(st.sampled_from(["atom", "sequence", "choice", "repeat", "anchor"]))
    if kind == "sequence":
        return draw(smaller) + draw(smaller)
    if kind == "choice":
        return f"(?:{draw(smaller)}|{draw(smaller)})"
    if kind == "repeat":
        times = draw(st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"]))
        return f"({draw(smaller)}){times}"
    if kind == "anchor":
        return draw(st.sampled_from(["^", "$", r"\b", r"\B"])) + draw(smaller)
    return draw(pattern_texts(depth=0))


@settings(deadline=None)
@given(pattern_texts(), st.text("ab-.1", min_size=1, max_size=8))  # in "" Python finds no \B
def test_agrees_with_pythons_where_the_two_languages_do(pattern: str, name: str) -> None:
    assert matches(pattern, name) == (re.fullmatch(pattern, name, re.ASCII) is not None)


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("orders-.*", ["orders-", "orders-eu"], ["orders", "my-orders-eu"]),
        ("a|b", ["a", "b"], ["ab", ""]),
        ("(?i)orders", ["orders", "ORDERS"], ["order"]),
        ("o(?i)rders", ["oRDERS"], ["Orders"]),
        ("(?i:o)rders", ["Orders"], ["oRDERS"]),
        ("(?i:x(?-i)y)z", ["Xyz"], ["XYz", "xyZ"]),
        ("[[:alpha:]]+", ["abc"], ["a1"]),
        ("[[:^digit:]_]+", ["a_"], ["a1"]),
        (r"\Qa.b\E.", ["a.bc"], ["axbc"]),
        (r"\Qab\E+", ["abb"], ["abab"]),
        (r"\p{Lu}\pN", ["A1"], ["a1"]),
        (r"\P{Lu}+", ["abc"], ["aBc"]),
        (r"(?P<x>a)(?<y>b)", ["ab"], ["a"]),
        (r"\x61\x{62}\143\n?", ["abc"], ["abd"]),
        (r"\Aab\z", ["ab"], ["abc"]),
        ("[a-c-]+", ["a-c"], ["d"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[^]a]", ["b"], ["]"]),
        ("(?i)[a-c]+", ["AbC"], ["d"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
        ("", [""], ["a"]),
        ("(|a)b", ["b", "ab"], ["aab"]),
        ("(?s).(?-s).", ["\na"], ["a\n"]),
    ],
)
def test_the_syntax_of_re2(pattern: str, names: list[str], others: list[str]) -> None:
    assert [name for name in names if not matches(pattern, name)] == []
    assert [name for name in others if matches(pattern, name)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "[", "[a", "[b-a]", "*", "a**", "a+*", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)",
        "(?>a)", r"(a)\1", r"\8", "\\", r"\y", r"\Z", "a{2,1}", "a{1001}", "(a{100}){100}",
        "(?P<>a)", "(?P=x)", "(?z)", r"\p{Nope}", "[[:nope:]]", r"\x{110000}", r"\xzz", "(?i",
    ],
)  # fmt: skip
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError, match="is not a valid regular expression") as error:
        matching(pattern, [])
    assert error.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_the_message_says_what_is_wrong_where() -> None:
    with pytest.raises(KafkaError) as error:
        matching("orders-(", [])
    assert error.value.message == (
        "SubscribedTopicRegex `orders-(` is not a valid regular expression: missing ): orders-(."
    )


@pytest.mark.parametrize(
    "pattern",
    [
        "(.?){1000}" * 4,
        "((((a{1000}b{1000}){1})c{1000}d{1000})e{1000}f{1000}g{1000}h{1000}i{1000}j{1000}k{1000})",
        "(" * 5000 + ")" * 5000,
        "a" * 1_000_000,
        "a?" * 10_000,
        "x{0,1000}" * 1000,
        r"\pL" * 1000,
        r"\PL{1000}",
    ],
    ids=lambda pattern: f"{pattern[:10]}-{len(pattern)}",
)
def test_what_could_keep_a_coordinator_busy_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError, match="too large") as error:
        matching(pattern, ["a" * 249])
    assert error.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(error.value.message) < 300


def test_a_long_list_of_names_is_a_pattern() -> None:
    names = [f"orders-from-region-{number:04}" for number in range(200)]
    assert matching("|".join(names), [*names, "orders"]) == set(names)


def test_no_pattern_is_remembered() -> None:
    matching("orders-.*", ["orders-eu"])
    assert re2._Regexp._make.cache_info().currsize == 0


def test_a_broker_without_patterns_does_without_re2() -> None:
    script = "import sys, moldau.groups.shard; print('re2' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


@settings(deadline=None)
@given(st.text("ab(){}[]*+?|^$\\.-,:1dwQEpPx<=!", max_size=12), st.text("ab1", max_size=4))
def test_any_text_is_a_pattern_or_refused(pattern: str, name: str) -> None:
    with suppress(KafkaError):
        matches(pattern, name)


@pytest.mark.parametrize("pattern", ["(a+)+", "(a|a)*", "(a*)*b?", "(.*)(.*)(.*)(.*)(.*)c?"])
def test_no_pattern_takes_long_on_a_long_name(pattern: str) -> None:
    assert not matches(pattern, "a" * 248 + "!!") or pattern.startswith("(.*)")

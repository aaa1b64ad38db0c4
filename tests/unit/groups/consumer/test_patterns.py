"""Patterns of topic names: RE2's syntax, whole names, and never long."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.errors import ErrorCode, KafkaError
from moldau.groups.consumer.patterns import compile_pattern


def matches(pattern: str, name: str) -> bool:
    return compile_pattern(pattern).matches(name)


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
        "((((a{1000}b{1000}){1})c{1000}d{1000})e{1000}f{1000}g{1000}h{1000}i{1000}j{1000}k{1000})",
        "(" * 5000 + ")" * 5000,
    ],
)  # fmt: skip
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as error:
        compile_pattern(pattern)
    assert error.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


@settings(deadline=None)
@given(st.text("ab(){}[]*+?|^$\\.-,:1dwQEpPx<=!", max_size=12), st.text("ab1", max_size=4))
def test_any_text_is_a_pattern_or_refused(pattern: str, name: str) -> None:
    with suppress(KafkaError):
        compile_pattern(pattern).matches(name)


@pytest.mark.parametrize("pattern", ["(a+)+", "(a|a)*", "(a*)*b?", "(.*)(.*)(.*)(.*)(.*)c?"])
def test_no_pattern_takes_long_on_a_long_name(pattern: str) -> None:
    assert not matches(pattern, "a" * 248 + "!!") or pattern.startswith("(.*)")

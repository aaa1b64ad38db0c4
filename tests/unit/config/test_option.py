"""Single options: how they are declared, what they read, refuse and say."""

from __future__ import annotations

from typing import assert_type

import pytest

from moldau.config.declare import (
    boolean,
    double,
    following,
    integer,
    long,
    names,
    optional_string,
    password,
    short,
    string,
)
from moldau.config.option import REQUIRED, AnyOption, ConfigError, Options
from moldau.config.types import MAX_LONG, MIN_LONG, ConfigType
from moldau.config.validators import EachOf, OffsetReset, OneOf


class Some(Options):
    """A section."""

    some_int = integer(5, "doc", at_least=1, at_most=9)
    some_long = long(5, "doc")
    some_short = short(5, "doc")
    some_double = double(0.5, "doc", at_least=0, at_most=1)
    some_boolean = boolean(False, "doc")
    some_list = names((), "doc")
    some_few = names((), "doc", allowed=EachOf("a", "b"))
    some_word = string("a", "doc", allowed=OneOf("Alpha", "Beta", any_case=True))
    some_lower_word = string("a", "doc", convert=str.lower, allowed=OneOf("alpha", ""))
    some_reset = string("a", "doc", allowed=OffsetReset("earliest"))
    some_text = optional_string("doc")
    some_secret = password("doc", allowed=OneOf("x"))


INT, LONG, SHORT, DOUBLE = Some.some_int, Some.some_long, Some.some_short, Some.some_double
BOOLEAN, LIST, WORD = Some.some_boolean, Some.some_list, Some.some_word


def test_an_attribute_is_the_option_on_its_class_and_the_value_on_an_object() -> None:
    some = Some()
    vars(some)["some_int"] = 7
    assert_type(some.some_int, int)
    assert (some.some_int, INT.name, INT.attribute) == (7, "some.int", "some_int")
    with pytest.raises(AttributeError, match="some_long"):
        _ = some.some_long


def test_a_class_has_the_options_of_those_it_inherits_from_and_may_declare_them_anew() -> None:
    class Other(Options):
        other_int = integer(1, "doc")

    class Both(Some, Other):
        some_int = integer(6, "doc")
        own_int = integer(2, "doc")

    assert list(Both.table) == [*Some.table, "other.int", "own.int"]
    assert (Both.table["some.int"].default, Some.table["some.int"].default) == (6, 5)


def test_an_option_that_follows_another_has_all_but_its_name_from_it() -> None:
    class Follower(Options):
        own_int = following(INT)

    option = Follower.own_int
    assert (option.name, option.type, option.default, option.doc) == (
        "own.int", ConfigType.INT, 5, "doc",
    )  # fmt: skip
    assert [(synonym.option, synonym.factor) for synonym in option.synonyms] == [(INT, 1)]
    with pytest.raises(ConfigError, match=r"own\.int: Value must be no more than 9"):
        option.parse("10")


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        (INT, 7, 7),
        (INT, " 7 ", 7),
        (BOOLEAN, True, True),
        (DOUBLE, 1, 1.0),
        (LIST, ["a", "b"], ("a", "b")),
        (LIST, {"a"}, ("a",)),
        (WORD, "beta", "beta"),
        (Some.some_lower_word, "ALPHA", "alpha"),
        (Some.some_text, None, None),
    ],
)
def test_programs_may_give_text_or_the_types_own_values(
    option: AnyOption, value: object, expected: object
) -> None:
    assert option.read(value) == expected


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        (INT, 1.5, "1.5 for configuration some.int: Not a number of type INT"),
        (INT, 10, "10 for configuration some.int: Value must be no more than 9"),
        (INT, None, "None for configuration some.int: must be of type int, not NoneType"),
        (INT, [1], "[1] for configuration some.int: must be of type int, not list"),
        (LIST, [1], "[1] for configuration some.list: must be a list of strings"),
        (Some.some_secret, b"hush", "[hidden] for configuration some.secret: must be of type"),
    ],
)
def test_what_else_programs_give_is_refused_in_the_same_words(
    option: AnyOption, value: object, sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        option.read(value)
    assert str(caught.value).startswith(f"Invalid value {sentence}")


def test_a_required_option_has_no_default() -> None:
    assert string(REQUIRED, "doc").default is REQUIRED


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (INT, "7", 7),
        (INT, "  7\t", 7),
        (INT, "+7", 7),
        (INT, "007", 7),
        (LONG, str(MAX_LONG), MAX_LONG),
        (LONG, str(MIN_LONG), MIN_LONG),
        (SHORT, "-32768", -32768),
        (DOUBLE, "1e-1", 0.1),
        (DOUBLE, ".5", 0.5),
        (BOOLEAN, "TRUE", True),
        (BOOLEAN, " False ", False),
        (LIST, "", ()),
        (LIST, " a , b ,a", ("a", "b")),
        (WORD, "aLPHA", "aLPHA"),
        (Some.some_few, "b,a", ("b", "a")),
        (Some.some_reset, "by_duration:PT1H", "by_duration:PT1H"),
    ],
)
def test_values_parse_as_kafka_parses_them(option: AnyOption, text: str, value: object) -> None:
    assert option.parse(text) == value


@pytest.mark.parametrize(
    ("option", "text", "reason"),
    [
        (INT, "0", "Value must be at least 1"),
        (INT, "10", "Value must be no more than 9"),
        (INT, "2147483648", "Not a number of type INT"),
        (INT, "1_0", "Not a number of type INT"),
        (INT, "٣", "Not a number of type INT"),
        (INT, "-", "Not a number of type INT"),
        (INT, "0x7", "Not a number of type INT"),
        (INT, "7.0", "Not a number of type INT"),
        (LONG, "9223372036854775808", "Not a number of type LONG"),
        (SHORT, "32768", "Not a number of type SHORT"),
        (DOUBLE, "1.5", "Value must be no more than 1"),
        (DOUBLE, "half", "Not a number of type DOUBLE"),
        (DOUBLE, "NaN", "Not a number of type DOUBLE"),
        (DOUBLE, "1_0", "Not a number of type DOUBLE"),
        (BOOLEAN, "yes", "Expected value to be either true or false"),
        (LIST, "a,,b", "must not have empty items between its commas"),
        (WORD, "gamma", "String must be one of (case insensitive): Alpha, Beta"),
        (Some.some_lower_word, "beta", "String must be one of: alpha, empty"),
        (
            Some.some_reset,
            "by_duration:1h",
            "must be earliest, or by_duration: with an ISO 8601 duration such as PT1H",
        ),
    ],
)
def test_a_refusal_names_key_value_and_what_is_allowed(
    option: AnyOption, text: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        option.parse(text)

    assert str(caught.value) == f"Invalid value {text} for configuration {option.name}: {reason}"


def test_the_refusal_of_a_list_names_the_item() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value c .*: String must be one of: a, b$"):
        Some.some_few.parse("a,c")


def test_a_refusal_does_not_show_a_secret() -> None:
    with pytest.raises(ConfigError) as caught:
        Some.some_secret.parse("hunter2")

    assert "hunter2" not in str(caught.value)

"""Java's properties format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.config.option import ConfigError
from moldau.config.properties import decode_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\tb=c", {"a": "b=c"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("  a=b  ", {"a": "b  "}),
        ("a==b", {"a": "=b"}),
        ("a = : b", {"a": ": b"}),
        ("# comment\n! another\n\n   \na=b", {"a": "b"}),
        ("a=b # not a comment", {"a": "b # not a comment"}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n   2,\\\n\t3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\\\\\n2", {"a": "1\\2"}),
        ("# comment \\\na=b", {"a": "b"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("a=1\\", {"a": "1"}),
        ("\\\n# comment\na=1", {"a": "1"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b=c", {"a b": "c"}),
        ("a\\:b:c", {"a:b": "c"}),
        ("a=C:\\\\data\\\\logs", {"a": "C:\\data\\logs"}),
        ("a=tab\\there\\nand\\q", {"a": "tab\there\nandq"}),
        ("a=\\u0041\\u00e9", {"a": "Aé"}),
        ("a=\\uD83D\\uDE00", {"a": "😀"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("=b", {"": "b"}),
        ("", {}),
    ],
)
def test_texts_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("escape", ["\\u12", "\\u", "\\u00g0", "\\u 123"])
def test_a_broken_unicode_escape_names_its_line(escape: str) -> None:
    with pytest.raises(ConfigError, match="Line 2: "):
        parse_properties(f"a=b\nc={escape}")


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.text("ab \\=:#!\n\r\t"))
)
def test_what_is_escaped_reads_back_as_itself(settings: dict[str, str]) -> None:
    def escape(text: str) -> str:
        code_units = text.encode("utf-16-be")
        units = [code_units[i : i + 2] for i in range(0, len(code_units), 2)]
        return "".join(f"\\u{int.from_bytes(unit, 'big'):04x}" for unit in units)

    text = "\n".join(f"{escape(key)}={escape(value)}" for key, value in settings.items())

    assert parse_properties(text) == settings


@given(st.text())
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    try:
        properties = parse_properties(text)
    except ConfigError:
        assert "\\u" in text
    else:
        assert all("\\" not in key or "\\" in text for key in properties)


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"a=b", "a=b"), ("a=ü".encode(), "a=ü"), (b"\xef\xbb\xbfa=b", "a=b"), (b"a=\xfc", "a=ü")],
)
def test_files_are_utf8_or_else_latin1(data: bytes, text: str) -> None:
    assert decode_properties(data) == text

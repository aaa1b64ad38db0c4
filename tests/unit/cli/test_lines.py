"""How the input of ``produce`` becomes records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cli.lines import InputRecord, LineParser, LineSplitter


@given(st.lists(st.binary()), st.sampled_from([b"\n", b"\0", b"--"]))
def test_lines_do_not_depend_on_how_the_input_was_cut(
    chunks: list[bytes], delimiter: bytes
) -> None:
    splitter = LineSplitter(delimiter)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()
    everything = b"".join(chunks)
    expected = everything.split(delimiter)
    if not expected[-1]:
        expected.pop()
    assert lines == expected


def test_an_empty_delimiter_is_refused() -> None:
    with pytest.raises(ValueError, match="delimiter"):
        LineSplitter(b"")


def test_a_plain_line_is_the_value() -> None:
    assert LineParser().parse(b"a line \xff") == InputRecord(None, b"a line \xff")


def test_options_give_every_record_a_key_and_headers() -> None:
    parser = LineParser(key=b"k", headers=["a=1", "b="])
    assert parser.parse(b"v") == InputRecord(b"k", b"v", (("a", b"1"), ("b", b"")))


def test_a_separator_divides_key_and_value() -> None:
    parser = LineParser(key_separator=b":")
    assert parser.parse(b"k:v:w") == InputRecord(b"k", b"v:w")
    assert parser.parse(b":v") == InputRecord(b"", b"v")
    with pytest.raises(ValueError, match="no key separator"):
        parser.parse(b"kv")


def test_the_null_text_makes_a_tombstone() -> None:
    parser = LineParser(key_separator=b":", null_value=b"NULL")
    assert parser.parse(b"k:NULL") == InputRecord(b"k", None)
    assert parser.parse(b"k:NULLs") == InputRecord(b"k", b"NULLs")


def test_encoded_values_and_keys_are_decoded() -> None:
    assert LineParser("hex", key_separator=b"=").parse(b"00ff=68 69") == InputRecord(
        b"\0\xff", b"hi"
    )
    assert LineParser("base64").parse(b"aGVsbG8=") == InputRecord(None, b"hello")


@pytest.mark.parametrize(
    ("form", "line", "said"),
    [
        ("hex", b"abc", "not hexadecimal"),
        ("base64", b"a", "not base64"),
        ("json", b"{", "not JSON"),
        ("json", b'{"value": "\xff"}', "not JSON"),
        ("json", b"[1]", "not a JSON object"),
        ("json", b'{"partition": "x"}', "not a whole number"),
    ],
)
def test_a_bad_line_is_named(form: str, line: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=f"line 8: .*{said}"):
        list(LineParser(form).parse_all([b"", line] if form != "json" else [b"{}", line], 7))


def test_json_lines() -> None:
    line = (
        b'{"key": "k", "value": {"x": [1]}, "headers": [{"key": "h", "value_base64": "/w=="}],'
        b' "partition": 2, "timestamp": 5, "offset": 9}'
    )
    parser = LineParser("json", headers=["first=1"])
    assert parser.parse(line) == InputRecord(
        b"k", b'{"x":[1]}', (("first", b"1"), ("h", b"\xff")), 2, 5
    )
    assert LineParser("json").parse(b"{}") == InputRecord(None, None)


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        LineParser(key=b"k", key_separator=b":")
    with pytest.raises(ValueError, match="comes from each line"):
        LineParser("json", key=b"k")
    with pytest.raises(ValueError, match="not an input format"):
        LineParser("xml")

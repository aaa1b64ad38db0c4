"""How records are printed, and that what is printed as JSON can be produced again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cli.lines import LineParser
from moldau.cli.render import Columns, make_renderer
from moldau.records.record import Record

RECORD = Record(7, 1738324800250, b"k", b"hello", (("a", b"1"), ("b", None)))
TOMBSTONE = Record(8, 1738324800250, b"k", None)


@pytest.mark.parametrize(
    ("form", "line"),
    [("text", b"hello\n"), ("hex", b"68656c6c6f\n"), ("base64", b"aGVsbG8=\n")],
)
def test_plain_formats_print_the_value(form: str, line: bytes) -> None:
    assert make_renderer(form)("t", 3, RECORD) == line


def test_text_leaves_bytes_as_they_are() -> None:
    raw = Record(0, 0, None, b"\xff\x00\xfe")
    assert make_renderer("text")("t", 0, raw) == b"\xff\x00\xfe\n"


def test_columns_stand_before_the_value() -> None:
    every = Columns(timestamp=True, partition=True, offset=True, headers=True, key=True)
    assert (
        make_renderer("text", columns=every)("t", 3, RECORD)
        == b"2025-01-31T12:00:00.250Z\t3\t7\ta=1,b=\tk\thello\n"
    )
    only_key = Columns(key=True)
    assert make_renderer("hex", columns=only_key, separator=":")("t", 3, RECORD) == (
        b"6b:68656c6c6f\n"
    )


def test_null_is_printed_as_told() -> None:
    assert make_renderer("text", null="NULL")("t", 0, TOMBSTONE) == b"NULL\n"
    assert make_renderer("text")("t", 0, TOMBSTONE) == b"\n"


def test_delimiters_may_be_escaped() -> None:
    assert make_renderer("text", delimiter=r"\0")("t", 0, RECORD) == b"hello\0"


def test_templates() -> None:
    template = "%t %p:%o %k=%v %s %K/%V/%S %T %d [%h] 100%%\\t|"
    assert make_renderer(template)("t", 3, RECORD) == (
        b"t 3:7 k=hello hello 1/5/5 1738324800250 2025-01-31T12:00:00.250Z [a=1,b=] 100%\t|\n"
    )
    assert make_renderer("%k=%v %V", null="-")("t", 3, TOMBSTONE) == b"k=- -1\n"


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(ValueError, match="%q is unknown in a template"):
        make_renderer("%q")
    with pytest.raises(ValueError, match="single %"):
        make_renderer("%v %")
    with pytest.raises(ValueError, match="is not a format"):
        make_renderer("xml")


def test_json_has_a_stable_form() -> None:
    line = make_renderer("json")("t", 3, RECORD)
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp": 1738324800250,
        "key": "k",
        "value": "hello",
        "headers": [{"key": "a", "value": "1"}, {"key": "b", "value": None}],
    }


def test_json_puts_other_bytes_in_base64() -> None:
    document = json.loads(make_renderer("json")("t", 0, Record(0, 0, b"\xff", b"\xfe", ())))
    assert document["key_base64"] == "/w=="
    assert document["value_base64"] == "/g=="
    assert "key" not in document
    assert "value" not in document


anything = st.none() | st.binary() | st.text().map(str.encode)


@given(
    anything,
    anything,
    st.lists(st.tuples(st.text(), anything)),
    st.integers(0, 100),
    st.integers(0, 2**62),
)
def test_json_output_is_json_input(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    partition: int,
    timestamp: int,
) -> None:
    record = Record(0, timestamp, key, value, tuple(headers))
    line = make_renderer("json")("t", partition, record)
    read = LineParser("json").parse(line)
    assert (read.key, read.value, read.headers) == (key, value, tuple(headers))
    assert (read.partition, read.timestamp) == (partition, timestamp)

"""What strangers wrote, shown: no line of a log is forged, no terminal obeys."""

from __future__ import annotations

import io
import json
import logging
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import ErrorCode, KafkaError
from moldau.printable import (
    LONGEST_LINE,
    LineFormatter,
    printable,
    printable_json,
    printable_lines,
)
from moldau.request_errors import error_of

FORGED = "2026-11-15 00:00:00,000 ERROR   moldau.broker.app: forged"
EVIL = f"\x1b]0;title\x07\x1b[31m\u009b31m\u202e\u2028\r\0\x7f\n{FORGED}"


@given(st.text())
def test_nothing_that_acts_on_a_terminal_is_left(text: str) -> None:
    shown = printable(text)
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    if text.isprintable():
        assert shown == text


@given(st.text(), st.integers(8, 100))
def test_what_is_long_keeps_its_beginning_and_its_end(text: str, limit: int) -> None:
    shown = printable(text, limit)
    if len(text) > limit:
        assert f"({len(text) - limit} more)" in shown
        assert shown.startswith(printable(text[: limit // 2]))
        assert shown.endswith(printable(text[len(text) - limit // 4 :]))
    else:
        assert shown == printable(text)


def test_escapes_are_those_of_python() -> None:
    assert printable("a\nb\x1b[31m\u202e\U000e0001") == r"a\nb\x1b[31m\u202e\U000e0001"
    assert printable_lines("a\tb\nc\x1b") == "a\tb\nc\\x1b"


@given(st.dictionaries(st.text(), st.text()))
def test_json_says_the_same(document: dict[str, str]) -> None:
    data = json.dumps(document, ensure_ascii=False).encode(errors="replace")
    shown = printable_json(data)
    assert json.loads(shown) == json.loads(data)
    assert shown.isprintable()


def test_errors_show_what_the_other_side_says_in_one_line() -> None:
    error = error_of(int(ErrorCode.INVALID_REQUEST), EVIL + "x" * 100_000)
    assert error is not None
    assert str(error).isprintable()
    assert error.message.isprintable()
    assert len(str(error)) < 2 * LONGEST_LINE
    # What is sent is what was said.
    assert KafkaError(ErrorCode.INVALID_REQUEST, EVIL).message == EVIL


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def logger(log: io.StringIO) -> Iterator[logging.Logger]:
    handler = logging.StreamHandler(log)
    handler.setFormatter(LineFormatter())
    made = logging.getLogger("moldau.test")
    made.addHandler(handler)
    yield made
    made.removeHandler(handler)


def lines_that_look_logged(text: str) -> list[str]:
    return [line for line in text.split("\n") if line[:1].isdecimal()]


def test_whatever_is_logged_is_one_line(logger: logging.Logger, log: io.StringIO) -> None:
    logger.warning("no %s", EVIL)
    logger.error(EVIL)
    logger.error("%s", KafkaError(ErrorCode.INVALID_REQUEST, EVIL))
    logger.error("%s", [EVIL, EVIL.encode()])
    assert len(lines_that_look_logged(log.getvalue())) == 4
    assert log.getvalue().replace("\n", "").isprintable()


def test_no_line_of_a_traceback_looks_logged(logger: logging.Logger, log: io.StringIO) -> None:
    try:
        raise ValueError(EVIL)
    except ValueError:
        logger.exception("it failed")
    logger.warning("here", stack_info=True)
    assert "ValueError" in log.getvalue()
    assert len(lines_that_look_logged(log.getvalue())) == 2
    assert log.getvalue().replace("\n", "").isprintable()


def test_long_lines_are_cut(logger: logging.Logger, log: io.StringIO) -> None:
    logger.warning("begin %s end", "x" * 10_000_000)
    assert len(log.getvalue()) < 2 * LONGEST_LINE
    assert "begin" in log.getvalue()
    assert log.getvalue().endswith(" end\n")

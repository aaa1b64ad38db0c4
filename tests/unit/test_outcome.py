"""What a coordinator decides, and how two decisions become one."""

from __future__ import annotations

from moldau.errors import ErrorCode
from moldau.outcome import Outcome, Record, Reply

ONE = Record(b"1", b"one")
TWO = Record(b"2", None)


def outcome(record: Record, token: str, undone: list[str]) -> Outcome:
    def undo(code: ErrorCode) -> list[Reply]:
        undone.append(token)
        return [Reply(token, code)]

    return Outcome([record], [Reply(token, "fine")], undo, [lambda: undone.append(f"{token}!")])


def test_two_outcomes_are_stored_and_answered_together() -> None:
    undone: list[str] = []
    both = outcome(ONE, "a", undone)
    both.extend(outcome(TWO, "b", undone))
    assert both.records == [ONE, TWO]
    assert both.replies == [Reply("a", "fine"), Reply("b", "fine")]
    assert undone == []
    for effect in both.effects:
        effect()
    assert undone == ["a!", "b!"]


def test_two_outcomes_fail_together_the_later_is_undone_first() -> None:
    undone: list[str] = []
    both = outcome(ONE, "a", undone)
    both.extend(outcome(TWO, "b", undone))
    code = ErrorCode.NOT_COORDINATOR
    assert both.failed(code) == [Reply("a", code), Reply("b", code)]
    assert undone == ["b", "a"]


def test_one_way_to_undo_survives_an_outcome_without_any() -> None:
    undone: list[str] = []
    both = Outcome.reply("x", "answer")
    both.extend(outcome(ONE, "a", undone))
    both.extend(Outcome())
    assert both.failed(ErrorCode.NOT_COORDINATOR) == [Reply("a", ErrorCode.NOT_COORDINATOR)]


def test_an_outcome_that_cannot_fail_has_no_error_replies() -> None:
    assert Outcome.reply("x", "answer").failed(ErrorCode.NOT_COORDINATOR) == []
    assert Outcome().is_empty
    assert not Outcome([ONE]).is_empty
    assert not Outcome(effects=[lambda: None]).is_empty

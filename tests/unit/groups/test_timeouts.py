from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moldau.groups.timeouts import Timeouts

KEYS = st.sampled_from("abcdef")
TIMES = st.integers(0, 50)


class AgainstASortedList(RuleBasedStateMachine):
    """The same as a dict that is searched every time."""

    def __init__(self) -> None:
        super().__init__()
        self.timeouts: Timeouts[str] = Timeouts()
        self.model: dict[str, int] = {}

    @rule(key=KEYS, at_ms=TIMES)
    def set_deadline(self, key: str, at_ms: int) -> None:
        self.timeouts.set(key, at_ms)
        self.model[key] = at_ms

    @rule(key=KEYS, at_ms=TIMES)
    def set_if_absent(self, key: str, at_ms: int) -> None:
        self.timeouts.set_if_absent(key, at_ms)
        self.model.setdefault(key, at_ms)

    @rule(key=KEYS)
    def cancel(self, key: str) -> None:
        assert self.timeouts.cancel(key) == (self.model.pop(key, None) is not None)

    @rule(now_ms=TIMES)
    def time_passes(self, now_ms: int) -> None:
        expected = {key: at_ms for key, at_ms in self.model.items() if at_ms <= now_ms}
        due = self.timeouts.due(now_ms)
        assert sorted(due) == sorted(expected)
        assert [expected[key] for key in due] == sorted(expected.values())
        for key in due:
            del self.model[key]

    @rule(by_ms=st.integers(-50, 50))
    def shift(self, by_ms: int) -> None:
        self.timeouts.shift(by_ms)
        self.model = {key: at_ms + by_ms for key, at_ms in self.model.items()}

    @rule()
    def clear(self) -> None:
        self.timeouts.clear()
        self.model.clear()

    @invariant()
    def knows_the_same(self) -> None:
        assert self.timeouts.next() == min(self.model.values(), default=None)
        assert len(self.timeouts) == len(self.model)
        for key in "abcdef":
            assert self.timeouts.deadline(key) == self.model.get(key)
            assert (key in self.timeouts) == (key in self.model)


TestAgainstASortedList = AgainstASortedList.TestCase


def test_due_keys_come_in_the_order_they_were_set_when_deadlines_are_equal() -> None:
    timeouts: Timeouts[object] = Timeouts()
    keys: list[object] = [("b",), "c", 3, None]  # not comparable with each other
    for key in keys:
        timeouts.set(key, 10)
    assert timeouts.due(9) == []
    assert timeouts.due(10) == keys


@given(st.integers(1, 20))
def test_leftovers_do_not_pile_up(members: int) -> None:
    timeouts: Timeouts[int] = Timeouts()
    for now_ms in range(1000):
        timeouts.set(now_ms % members, now_ms + 45_000)
    assert len(timeouts._heap) <= 2 * members + 65
    assert timeouts.due(10**9) == sorted(
        range(members), key=lambda member: max(range(member, 1000, members))
    )

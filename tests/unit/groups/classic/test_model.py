"""A short run of the simulated consumers; ``tests/simulation`` has the long one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.groups.classic.simulated import TICKS, TROUBLES, Churn

STEPS = st.tuples(st.sampled_from(TROUBLES), st.integers(0, 20), st.sampled_from(TICKS))


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(STEPS, max_size=30),
    max_size=st.sampled_from([3, 100]),
    delay_ms=st.sampled_from([0, 3000]),
)
def test_a_group_settles_after_any_churn(
    steps: list[tuple[str, int, int]], max_size: int, delay_ms: int
) -> None:
    Churn(max_size, delay_ms).run(steps)

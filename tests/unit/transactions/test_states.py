"""Which state may follow which: every pair."""

from __future__ import annotations

from itertools import product

import pytest

from moldau.transactions.states import BY_LABEL, TransactionState, may_follow

S = TransactionState
RESTING = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
LEGAL = {
    *product(RESTING, (S.EMPTY, S.ONGOING, S.PREPARE_ABORT, S.DEAD)),
    *product((S.ONGOING,), (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.PREPARE_EPOCH_FENCE)),
    (S.PREPARE_COMMIT, S.COMPLETE_COMMIT),
    (S.PREPARE_ABORT, S.COMPLETE_ABORT),
    (S.PREPARE_EPOCH_FENCE, S.PREPARE_ABORT),
}
"""(before, after)"""


@pytest.mark.parametrize(("before", "after"), list(product(S, S)))
def test_every_pair(before: S, after: S) -> None:
    assert may_follow(after, before) == ((before, after) in LEGAL)


def test_numbers_and_names_are_kafkas() -> None:
    names = [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert [S(number).label for number in range(8)] == names
    assert [BY_LABEL[name] for name in names] == list(S)

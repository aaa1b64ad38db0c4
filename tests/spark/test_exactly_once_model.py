"""The exactly-once protocol through thousands of lives of a query: no row lost, none doubled."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.spark.exactly_once_model import (
    MARGIN,
    QUERY,
    ModelCluster,
    ModelLedger,
    ModelSpark,
    ModelTransactions,
    OpenTransaction,
    Plan,
    Row,
)

from moldau.spark.exactly_once.decision import Decision, TaskTransaction
from moldau.spark.exactly_once.errors import (
    ExactlyOnceError,
    LostDecisionsError,
    LostTransactionError,
    ReplannedBatchError,
    TimeoutNearError,
    UndecidableError,
)
from moldau.spark.exactly_once.protocol import BatchCommitter

LIVES = 400


def check(spark: ModelSpark) -> None:
    """Every batch that Spark takes for done is visible, each row once, as one run computed it."""
    visible = spark.cluster.visible
    assert not [row for row, count in visible.items() if count > 1], "doubled"
    for batch in range(spark.done + 1):
        found = {row for row in visible if row[0] == batch}
        assert found in every_output(spark, batch), f"batch {batch} lost rows"
    assert not [row for row in visible if row[0] > spark.done + 1]


def every_output(spark: ModelSpark, batch: int) -> list[set[Row]]:
    runs = range(1, spark.runs + 1)
    parts = range(spark.plan.partitions)
    return [{row for part in parts for row in spark.rows(batch, part, run)} for run in runs]


def lives(plan: Plan) -> list[ModelSpark]:
    found = []
    for seed in range(LIVES):
        spark = ModelSpark(seed, plan)
        spark.live()
        check(spark)
        found.append(spark)
    return found


def test_crashes_between_any_two_steps_and_drivers_that_live_on() -> None:
    found = lives(Plan())
    assert all(spark.stopped_by is None for spark in found)
    assert sum(spark.crashes for spark in found) > LIVES
    assert any(len(spark.cluster.decisions) > spark.plan.batches - 1 for spark in found)


def test_batches_that_are_not_repeated_to_the_letter() -> None:
    found = lives(Plan(deterministic=False, timeouts=0.002))
    assert any(spark.stopped_by is not None for spark in found)


def test_timeouts_stop_the_query_before_rows_are_lost() -> None:
    found = lives(Plan(timeouts=0.005))
    stopped = [spark for spark in found if spark.stopped_by is not None]
    assert stopped
    assert len(stopped) < LIVES
    for spark in stopped:
        assert spark.done < spark.plan.batches - 1


def test_replaying_lost_transactions_completes_what_timeouts_broke() -> None:
    found = lives(Plan(timeouts=0.005, replay_lost=True))
    assert all(spark.stopped_by is None for spark in found)
    plan = found[0].plan
    rows = Counter(
        row
        for batch in range(plan.batches)
        for part in range(plan.partitions)
        for row in found[0].rows(batch, part, 1)
    )
    assert all(spark.cluster.visible == rows for spark in found)
    repaired = [
        one
        for spark in found
        for one, after in zip(spark.cluster.decisions, spark.cluster.decisions[1:], strict=False)
        if one.batch == after.batch and set(one.transactions) & set(after.transactions)
    ]
    assert repaired


class Scene:
    """Batch 7 of two partitions, decided and half committed; then repeated."""

    def __init__(self, *states: str) -> None:
        self.cluster = ModelCluster(random.Random(0))
        self.decided = [self.write(part, f"old{part}", state) for part, state in enumerate(states)]
        self.cluster.decisions.append(Decision(7, tuple(self.decided)))

    def write(self, part: int, unique: str, state: str = "open") -> TaskTransaction:
        name = QUERY.transactional_id(7, part, unique)
        rows = [(7, part, number, 0) for number in range(2)]
        self.cluster.transactions[name] = OpenTransaction(MARGIN + 1, rows, state)
        if state == "committed":
            self.cluster.visible.update(rows)
        return TaskTransaction(name, 0, 0, True, part, len(rows))

    def commit(
        self, new: list[TaskTransaction], plan: str = "", *, replay_lost: bool = False
    ) -> None:
        run(self.committer(replay_lost=replay_lost).commit(7, new, plan))

    def committer(self, *, replay_lost: bool = False) -> BatchCommitter:
        ledger, transactions = ModelLedger(self.cluster), ModelTransactions(self.cluster)
        return BatchCommitter(QUERY, ledger, transactions, margin=MARGIN, replay_lost=replay_lost)

    def states(self, some: list[TaskTransaction]) -> list[str]:
        return [self.cluster.transactions[one.id].state for one in some]


def run(work: Coroutine[Any, Any, None]) -> None:
    try:
        while True:
            work.send(None)
    except StopIteration:
        return


def test_a_decision_of_which_nothing_is_left_is_made_anew() -> None:
    scene = Scene("aborted", "aborted")
    new = [scene.write(part, "new") for part in range(2)]
    scene.commit(new)
    assert scene.states(new) == ["committed", "committed"]
    assert scene.cluster.decisions[-1].transactions == tuple(new)


def test_a_repeated_batch_with_other_rows_does_not_replace_what_was_lost() -> None:
    scene = Scene("committed", "aborted")
    new = [scene.write(part, "new") for part in range(2)]
    new[1] = TaskTransaction(new[1].id, 0, 0, True, 1, records=3)
    with pytest.raises(LostTransactionError, match="has other rows there"):
        scene.commit(new, replay_lost=True)
    assert scene.states(new) == ["open", "open"]
    assert len(scene.cluster.decisions) == 1


def test_just_what_was_lost_is_replaced() -> None:
    scene = Scene("committed", "aborted")
    new = [scene.write(part, "new") for part in range(2)]
    scene.commit(new, replay_lost=True)
    assert scene.states(new) == ["aborted", "committed"]
    assert scene.cluster.decisions[-1].transactions == (scene.decided[0], new[1])


def test_a_transaction_that_the_cluster_has_forgotten_stops_the_query() -> None:
    scene = Scene("committed", "unknown")
    with pytest.raises(UndecidableError, match="has forgotten what became of model"):
        scene.commit([scene.write(part, "new") for part in range(2)], replay_lost=True)


@pytest.mark.parametrize(
    ("passed", "message"), [(2.0, "times out in 49"), (100.0, "timed out before the batch")]
)
def test_nothing_is_decided_that_could_time_out(passed: float, message: str) -> None:
    scene = Scene()
    scene.cluster.decisions.clear()
    new = [scene.write(0, "new")]
    scene.cluster.pass_time(passed)
    with pytest.raises(TimeoutNearError, match=message) as stopped:
        scene.commit(new)
    assert isinstance(stopped.value, ExactlyOnceError)
    assert not scene.cluster.decisions


def test_what_attempts_that_lost_have_left_open_is_aborted() -> None:
    """Readers would wait for it until its timeout."""
    scene = Scene("open", "open")
    names = ["model.query.6.0.x", "model.query.7.0.x", "model.query.8.0.x", "model.other.6.0.x"]
    for name in names:
        scene.cluster.transactions[name] = OpenTransaction(MARGIN)
    scene.commit([])
    assert scene.states(scene.decided) == ["committed", "committed"]
    found = [scene.cluster.transactions[name].state for name in names]
    assert found == ["aborted", "aborted", "open", "open"]


def test_a_batch_that_is_planned_anew_stops_the_query() -> None:
    """As when the checkpoint was put back by one batch: dropping its rows would lose some."""
    scene = Scene()
    scene.cluster.decisions.clear()
    scene.commit([scene.write(0, "first")], "offsets 5 to 9")
    scene.commit([scene.write(0, "again")], "offsets 5 to 9")
    with pytest.raises(ReplannedBatchError, match="with other input offsets"):
        scene.commit([scene.write(0, "other")], "offsets 5 to 11")
    scene.commit([scene.write(0, "not known")])
    assert sum(scene.cluster.visible.values()) == 2


def test_a_batch_that_is_written_without_a_decision_stops_the_query() -> None:
    scene = Scene("committed")
    scene.cluster.decisions.clear()
    with pytest.raises(LostDecisionsError, match="topic decisions does not know of it"):
        scene.commit([scene.write(0, "new")])
    assert not scene.cluster.decisions


@pytest.mark.parametrize("batch", [6, 7])
def test_a_driver_that_was_superseded_leaves_the_ledger_to_its_successor(batch: int) -> None:
    scene = Scene("open")
    scene.cluster.holder = successor = object()
    mine = scene.write(0, "mine")
    run(scene.committer().abort(batch, [mine]))
    assert scene.cluster.holder is successor
    assert scene.states([mine]) == ["aborted"]
    assert scene.states(scene.decided) == ["committed" if batch == 7 else "open"]


def test_a_failed_commit_that_was_decided_is_not_aborted() -> None:
    scene = Scene("open", "open")
    run(scene.committer().abort(7, scene.decided))
    assert scene.states(scene.decided) == ["committed", "committed"]


def test_a_decision_must_be_written_while_there_is_time_to_commit() -> None:
    scene = Scene()
    scene.cluster.decisions.clear()
    allowed = []

    class Watched(ModelLedger):
        async def write(self, decision: Decision, *, within: float) -> None:
            allowed.append(within)

    committer = BatchCommitter(
        QUERY, Watched(scene.cluster), ModelTransactions(scene.cluster), margin=40.0
    )
    run(committer.commit(7, [scene.write(0, "new")]))
    run(committer.commit(8, []))
    assert allowed == [MARGIN + 1 - 20.0, 60.0]

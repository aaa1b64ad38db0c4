"""The exactly-once protocol through thousands of lives of a query: no row lost, none doubled."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.spark.exactly_once_model import ModelSpark, Plan, Row

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


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_left_open_by_attempts_that_lost(seed: int) -> None:
    """Readers would wait for it until its timeout."""
    spark = ModelSpark(seed, Plan(crashes=0, speculation=1))
    spark.live()
    check(spark)
    ended = [one for one in spark.cluster.transactions.values() if one.state != "open"]
    assert [one for one in ended if one.state == "aborted"]

"""Whose a checkpoint is: pipelines that go on where they stopped are never refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.scripted_broker import ScriptedBroker

from moldau.errors import ErrorCode
from moldau.model import NO_TOPIC_ID, TopicPartition
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.preflight import everything
from moldau.spark.pipeline.preflight.checkpoints import (
    OWNER_FILE,
    check_checkpoints,
    read_planned,
    remember_owner,
)
from moldau.spark.pipeline.preflight.found import Findings, SourceIdentity
from moldau.spark.pipeline.spec import Pipeline

TWO = """\
name = "copy"

[[sources]]
name = "east"
topic = "events"
bootstrap_servers = "east:9092"
#east

[[sources]]
name = "west"
topic = "WEST"
bootstrap_servers = "west:9092"
#west

[[steps]]
name = "both"
sql = "SELECT * FROM east JOIN west USING (key)"

[[sinks]]
from = "both"
name = "out"
console = true
"""
EVENTS = TopicPartition("events", 0)
NONE = str(NO_TOPIC_ID)
LOSSY = "fail_on_data_loss = false"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def declare(
    west: str = "events", *, east_says: str = "", west_says: str = "", hidden: bool = False
) -> Pipeline:
    """``hidden``: in brackets, where only Spark sees that the query reads ``east``."""
    text = TWO.replace("WEST", west).replace("#east", east_says).replace("#west", west_says)
    if hidden:
        text = text.replace("east JOIN west USING (key)", "(east JOIN west USING (key))")
    return parse_pipeline(text, "copy.toml")


def write_log(*lines: dict[str, dict[str, int]], batch: int = 0) -> None:
    """As Spark does when a batch begins: a line for each source."""
    log = Path("checkpoints/copy/out/offsets")
    log.mkdir(parents=True, exist_ok=True)
    (log / str(batch)).write_text("\n".join(["v1", "{}", *map(json.dumps, lines)]))


def told(pipeline: Pipeline, found: Findings) -> list[str]:
    problems = check_checkpoints(pipeline, read_planned(pipeline), found)
    return [one.message for one in problems]


def ends(east: int, west: int, topic: str = "events") -> Findings:
    return Findings(ends={"east": {EVENTS: east}, "west": {TopicPartition(topic, 0): west}})


def test_topics_of_one_name_on_two_clusters_are_two() -> None:
    for offsets in ((100, 5), (5, 100)):
        write_log(*({"events": {"0": offset}} for offset in offsets))
        assert not told(declare(), ends(100, 5))
        assert not told(declare(), ends(5, 100))
    (said,) = told(declare(), ends(99, 5))  # more was read than either has
    assert "up to offset 100, and that ends at 99 now" in said


def test_a_partition_that_ends_before_what_was_read_is_told() -> None:
    write_log({"events": {"0": 7}}, {"others": {"0": 7}})
    assert not told(declare("others"), ends(7, 7, "others"))
    (said,) = told(declare("others"), ends(7, 6, "others"))
    assert "others-0 up to offset 7" in said


def test_a_source_that_may_lose_data_speaks_for_itself_only() -> None:
    write_log({"events": {"0": 7}}, {"others": {"0": 7}})
    assert not told(declare("others", west_says=LOSSY), ends(7, 6, "others"))
    assert told(declare("others", east_says=LOSSY), ends(7, 6, "others"))
    before = Findings(sources={"west": SourceIdentity("west:9092", "one", {})})
    remember_owner(declare("others"), before)
    after = Findings(sources={"west": SourceIdentity("west:9092", "two", {})})
    assert told(declare("others"), after)
    assert not told(declare("others", west_says=LOSSY), after)
    assert told(declare("others", east_says=LOSSY), after)


def test_offsets_of_a_source_that_the_query_reads_in_its_own_way_are_no_strangers() -> None:
    """Without Spark nobody knows all that a query reads."""
    write_log({"events": {"0": 7}}, {"others": {"0": 7}})
    assert not told(declare("others", hidden=True), Findings())
    write_log({"strange": {"0": 7}})
    (said,) = told(declare("others", hidden=True), Findings())
    assert "belongs to another source: it has offsets of topic strange" in said
    assert not told(declare("others", hidden=True, east_says=LOSSY), Findings())


@pytest.mark.parametrize(
    ("before", "now", "refused"),
    [("a", "b", True), ("a", "a", False), (NONE, "b", False), ("a", NONE, False)],
)
def test_brokers_without_ids_of_topics_say_nothing_by_them(
    before: str, now: str, refused: bool
) -> None:
    write_log({"others": {"0": 7}})
    pipeline = declare("others")
    known = {"west": SourceIdentity("west:9092", "one", {"others": before})}
    remember_owner(pipeline, Findings(sources=known))
    now_known = {"west": SourceIdentity("west:9092", "one", {"others": now})}
    assert bool(told(pipeline, Findings(sources=now_known))) == refused


def test_a_pipeline_that_runs_meanwhile_is_not_taken_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its log goes on after the ends were asked for."""
    monkeypatch.setattr(everything, "check_java", Findings)
    write_log({"events": {"0": 7}})

    class Busy(ScriptedBroker):
        def _say(self, api: object, request: object) -> object:
            write_log({"events": {"0": 99}}, batch=1)
            return super()._say(api, request)  # type: ignore[arg-type]

    with Busy({"events": ErrorCode.NONE}, end=7).serving() as broker:
        text = TWO.replace("WEST", "events").replace("east JOIN west USING (key)", "east")
        text = text.replace("east:9092", broker.address).replace("west:9092", broker.address)
        assert not everything.preflight(parse_pipeline(text, "copy.toml"), 20.0).problems


def test_a_checkpoint_that_cannot_be_read_is_told_and_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(everything, "check_java", Findings)
    monkeypatch.setattr(everything, "clusters_of", lambda _: ())
    write_log({"events": {"zero": 7}})
    found = everything.preflight(declare(), 1.0)
    assert not found.problems
    assert found.notes[0].startswith("The checkpoint was not looked at: ValueError")
    write_log({"events": {"0": 7}})
    Path("checkpoints/copy", OWNER_FILE).write_text('{"out": []}')
    found = everything.preflight(declare(), 1.0)
    assert not found.problems
    assert found.notes[0].startswith("The checkpoint was not looked at: ")


def test_an_owner_that_cannot_be_written_down_is_left_to_spark(here: Path) -> None:
    (here / "checkpoints").write_text("no directory")
    known = {"west": SourceIdentity("west:9092", "one", {})}
    remember_owner(declare("others"), Findings(sources=known))

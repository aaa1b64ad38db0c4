"""Several sinks of one pipeline: the topic is read once, and each batch is written to each once."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession
from tests.client.conftest import SETTINGS, NewTopicFactory, topic_factory
from tests.spark.pipelines import rows, run_once
from tests.spark.records import consume, produce
from tests.spark.visits import Trial, expected, trial_on, windows
from tests.support.moldau import Moldau
from tests.support.process import free_port
from tests.support.target import Target

from moldau.spark.pipeline.checkpoint import read_queries, read_state
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.run import PipelineFailedError
from moldau.spark.pipeline.sinks import wants_empty
from moldau.spark.pipeline.sinks.files import LocalFiles
from moldau.spark.pipeline.sinks.parts import Part, parts
from moldau.spark.pipeline.spec import LakeSink, ParquetSink, TopicSink


@pytest.fixture
def trial(moldau: Target, tmp_path: Path) -> Trial:
    return trial_on(moldau.bootstrap, tmp_path)


def run(text: str, spark: SparkSession, place: Path) -> list[Progress]:
    return run_once(parse_pipeline(text, "p.toml"), spark, str(place / "checkpoint"))


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, str]]:
    """A broker, and where it says what it has sent."""
    listener = f"127.0.0.1:{free_port()}"
    broker = Moldau(
        tmp_path_factory.mktemp("metered"), {**SETTINGS, "metrics.listener": f"HTTP://{listener}"}
    )
    broker.start()
    yield broker, f"http://{listener}/metrics"
    broker.kill()


def sent(url: str) -> int:
    with urlopen(url, timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    (line,) = [one for one in lines if one.startswith("kafka_server_brokertopicmetrics_bytesout_")]
    return int(float(line.split()[-1]))


def test_the_topic_is_read_once_for_three_sinks(
    metered: tuple[Target, str], spark: SparkSession, tmp_path: Path
) -> None:
    broker, metrics = metered
    trial = trial_on(broker.bootstrap, tmp_path)
    trial.produce(range(600))
    before = sent(metrics)
    consume(broker.bootstrap, trial.topic, 2)
    size = sent(metrics) - before
    before = sent(metrics)
    reports = run(trial.text, spark, tmp_path)
    # A little more is sent than the range that was asked for, and letters are looked for.
    assert 1 <= (sent(metrics) - before) / size < 1.5
    assert [(one.sink, one.rows) for one in reports if one.batch == 0] == [
        ("quick", 594), ("named", 594), ("pages", 594),
    ]  # fmt: skip
    assert {one.lag for one in reports} == {0}
    # Windows have a batch without records, of which the others hear nothing.
    assert {one.batch for one in reports} == {0, 1}
    assert {part.first for part in _written(tmp_path / "quick")} == {0}
    trial.close_windows()
    reports += run(trial.text, spark, tmp_path)
    assert sum(one.rows for one in reports if one.sink == "pages") == 596
    trial.check(range(600), 2)
    # One query, and what status says of each sink.
    assert list(read_queries(trial.checkpoint)) == ["quick+named+pages"]
    states = [read_state(trial.checkpoint, name) for name in ("quick", "named", "pages")]
    assert len({state.batch for state in states}) == 1
    assert {sum(state.offsets.values()) for state in states} == {602}
    assert all(state.progress is not None for state in states)


def _written(folder: Path) -> list[Part]:
    files = LocalFiles(folder)
    writers = {path.name.split("-")[1] for path in folder.glob("*.parquet")}
    return [part for writer in writers for part in parts(files, writer)]


def test_batches_without_rows_are_written_where_something_would_be_missing() -> None:
    """What is made for a sink is there after the first batch, whatever is in it."""
    topic = TopicSink("t", "s", {"topic": "t"})
    files = ParquetSink("t", "s", "place")
    assert not wants_empty(topic, first=True)
    assert not wants_empty(files, first=False)
    assert wants_empty(files, first=True)
    assert wants_empty(replace(files, output_mode="complete"), first=False)
    assert wants_empty(replace(topic, options={"exactlyOnce": "true"}), first=False)
    table = LakeSink("t", "s", "delta", "place")
    assert not wants_empty(table, first=False)
    assert wants_empty(replace(table, compact=True), first=False)


def test_a_batch_that_comes_again_is_written_once(trial: Trial, spark: SparkSession) -> None:
    """As after a crash between the last sink and Spark's own note: all but the topic know it."""
    trial.produce(range(300))
    run(trial.text, spark, trial.place)
    trial.close_windows()
    run(trial.text, spark, trial.place)
    before = trial.in_files(), trial.in_table(), trial.letters()
    assert before[1] == windows(range(300))
    _forget_last_batch(trial.checkpoint / "quick+named+pages")
    run(trial.text, spark, trial.place)
    assert (trial.in_files(), trial.in_table(), trial.letters()) == before


def _forget_last_batch(query: Path) -> None:
    commits = sorted((query / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    commits[-1].unlink()
    (query / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)


def test_a_sink_that_fails_is_named_and_the_others_do_not_write_twice(
    trial: Trial, spark: SparkSession
) -> None:
    text = trial.text.replace('from = "pages"\n', 'from = "quick"\nname = "pages"\n')
    trial.produce(range(100))
    with closing(sqlite3.connect(trial.place / "d.db")) as database:
        database.execute(
            "CREATE TABLE pages (page TEXT, took INT CHECK (took < 0), timestamp TEXT, offset INT)"
        )
        database.commit()
        with pytest.raises(PipelineFailedError, match=r"sink pages: .*CHECK") as caught:
            run(text, spark, trial.place)
        last_sink = text[: text.rindex("[[sinks]]")].count("\n") + 1
        assert str(caught.value).startswith(f"p.toml:{last_sink}: ")
        database.execute("DROP TABLE pages")
        database.commit()
    run(text, spark, trial.place)
    expect = expected(range(100))
    assert trial.in_files() == expect
    assert Counter(rows(trial.place / "d.db", "SELECT page, took FROM pages")) == expect
    assert len(trial.letters()) == 1


def test_topics_are_written_exactly_once_by_one_query(
    kafka: Target, spark: SparkSession, tmp_path: Path
) -> None:
    """Two of them: each has decisions of its own."""
    trial = trial_on(kafka.bootstrap, tmp_path)
    other = topic_factory(kafka.bootstrap)()
    sink = f'topic = "{trial.named}"\nbootstrap_servers = "{kafka.bootstrap}"\n'
    assert sink in trial.text
    exactly = f"{sink}exactly_once = true\n"
    second = exactly.replace(trial.named, other)
    text = trial.text.replace(sink, f'{exactly}[[sinks]]\nfrom = "named"\nname = "other"\n{second}')
    for part in (range(100), range(100, 200)):
        trial.produce(part)
        run(text, spark, tmp_path)
    _forget_last_batch(trial.checkpoint / "quick+named+other+pages")
    run(text, spark, tmp_path)
    expect = expected(range(200))
    committed = {"isolation.level": "read_committed"}
    for name in (trial.named, other):
        assert trial.in_topic(name, **committed) == expect
    assert trial.in_files() == expect
    assert len(trial.letters()) == 2


def test_steps_that_look_at_more_than_a_row_stay_in_the_stream(
    moldau: Target, topics: NewTopicFactory, spark: SparkSession, tmp_path: Path
) -> None:
    """An aggregate in SQL counts over all batches, also if others use its rows."""
    topic = topics()
    text = dedent(f'''
        name = "counts"
        [[sources]]
        name = "s"
        topic = "{topic}"
        bootstrap_servers = "{moldau.bootstrap}"
        starting_offsets = "earliest"
        [[steps]]
        name = "counted"
        sql = "SELECT string(key) AS key, count(*) AS n FROM s GROUP BY key"
        [[steps]]
        name = "many"
        sql = "SELECT key, n FROM counted WHERE n > 1"
        [[sinks]]
        from = "counted"
        database = "sqlite:///{tmp_path}/d.db"
        table = "counted"
        output_mode = "complete"
        [[sinks]]
        from = "many"
        database = "sqlite:///{tmp_path}/d.db"
        table = "many"
        output_mode = "complete"
    ''')
    for _ in range(2):
        produce(moldau.bootstrap, topic, [{"key": key, "value": b"x"} for key in (b"a", b"b")])
        produce(moldau.bootstrap, topic, [{"key": b"a", "value": b"x"}])
        run(text, spark, tmp_path)
    assert sorted(rows(tmp_path / "d.db", "SELECT key, n FROM counted")) == [("a", 4), ("b", 2)]
    assert sorted(rows(tmp_path / "d.db", "SELECT key, n FROM many")) == [("a", 4), ("b", 2)]


FORKED = """
    name = "forked"
    [[sources]]
    name = "s"
    files = "PLACE/in"
    format = "json"
    schema = "n INT"
    options = { maxFilesPerTrigger = 1 }
    STEP
    [[sinks]]
    from = "s"
    database = "sqlite:///PLACE/d.db"
    table = "s"
    [[sinks]]
    from = "more"
    database = "sqlite:///PLACE/d.db"
    table = "more"
"""


def forked(place: Path, step: str) -> str:
    (place / "in").mkdir()
    for number in (1, 2):
        (place / "in" / f"{number}.json").write_text(f'{{"n": {number}}}\n', "utf-8")
    return dedent(FORKED).replace("PLACE", str(place)).replace("STEP", f"[[steps]]\n{step}")


def test_a_row_knows_its_file_behind_a_fork(spark: SparkSession, tmp_path: Path) -> None:
    step = 'name = "more"\nsql = "SELECT n, input_file_name() AS file FROM s"'
    run(forked(tmp_path, step), spark, tmp_path)
    found = rows(tmp_path / "d.db", "SELECT n, file FROM more ORDER BY n")
    assert [(n, file.rpartition("/")[2]) for n, file in found] == [(1, "1.json"), (2, "2.json")]
    assert rows(tmp_path / "d.db", "SELECT n FROM s ORDER BY n") == [(1,), (2,)]


def test_a_python_step_stays_what_it_is_for_a_run(spark: SparkSession, tmp_path: Path) -> None:
    """Its file is changed while batches are computed, and it is used from the next run on."""
    code = dedent("""
        from pathlib import Path
        from pyspark.sql import functions as F

        def tagged(frame):
            file = Path(__file__)
            file.write_text(file.read_text().replace("F.lit(1)", "F.lit(2)"))
            return frame.withColumn("tag", F.lit(1))
    """)
    (tmp_path / "tags.py").write_text(code, "utf-8")
    text = forked(tmp_path, 'name = "more"\npython = "tags.py:tagged"\nfrom = "s"')
    pipeline = parse_pipeline(text, str(tmp_path / "p.toml"))
    run_once(pipeline, spark, str(tmp_path / "checkpoint"))
    assert rows(tmp_path / "d.db", "SELECT n, tag FROM more ORDER BY n") == [(1, 1), (2, 1)]
    (tmp_path / "in" / "3.json").write_text('{"n": 3}\n', "utf-8")
    run_once(pipeline, spark, str(tmp_path / "checkpoint"))
    assert rows(tmp_path / "d.db", "SELECT tag FROM more WHERE n = 3") == [(2,)]


def test_a_sink_comes_back_if_nothing_was_written_without_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It was taken out, and the query has not gone on since: it has failed."""
    text = forked(tmp_path, 'name = "more"\nsql = "SELECT n + 0 AS n FROM s"')
    run(text, spark, tmp_path)
    (tmp_path / "in" / "3.json").write_text('{"n": 3}\n', "utf-8")
    without = text[: text.rindex("[[sinks]]")]
    with closing(sqlite3.connect(tmp_path / "d.db")) as database:
        database.execute(
            "CREATE TRIGGER no BEFORE INSERT ON s BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        with pytest.raises(PipelineFailedError, match="sink s: "):
            run(without, spark, tmp_path)
        database.execute("DROP TRIGGER no")
    run(text, spark, tmp_path)
    for table in ("s", "more"):
        assert sorted(rows(tmp_path / "d.db", f"SELECT n FROM {table}")) == [(1,), (2,), (3,)]
    run(without, spark, tmp_path)
    run(text, spark, tmp_path)  # there was nothing to read meanwhile
    (tmp_path / "in" / "4.json").write_text('{"n": 4}\n', "utf-8")
    run(without, spark, tmp_path)
    with pytest.raises(PipelineFailedError, match="sink more was taken out"):
        run(text, spark, tmp_path)

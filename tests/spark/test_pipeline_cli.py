"""``moldau pipeline``: the commands that need no session, and what they say without Java."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.support.cli import CommandLine

from moldau.cli.pipeline_view import table_of
from moldau.spark import java
from moldau.spark.pipeline.checkpoint import read_state, write_progress
from moldau.spark.pipeline.failures import failure, reason
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.progress import progress_of


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine("", capsys)


def test_a_file_is_made_checked_and_kept(cli: CommandLine, tmp_path: Path) -> None:
    assert cli("pipeline", "init", "sensors").out == "sensors.toml\n"
    assert cli("pipeline", "validate", "sensors.toml").out == (
        "sensors.toml: pipeline sensors is fine: 1 source, 3 steps, 2 sinks\n"
    )
    assert "is there already" in cli("pipeline", "init", "sensors", code=1).err
    assert "did you mean mirror?" in cli("pipeline", "init", "m", "-t", "miror", code=2).err
    cli("pipeline", "init", "copy", "--template", "mirror")
    (tmp_path / "sensors.toml").write_text('name = "x"\n[[source]]\n')
    said = cli("pipeline", "validate", "sensors.toml", code=1).err.splitlines()
    assert said[-1] == "sensors.toml:2: the file has no key source: did you mean sources?"
    assert len(said) == 3
    wrong = cli("pipeline", "validate", "rollup", "-p", "topik=x", code=1).err
    assert "there is no parameter topik: did you mean topic?" in wrong
    assert "NAME=VALUE" in cli("pipeline", "validate", "rollup", "-p", "topic", code=2).err
    assert "did you mean rollup?" in cli("pipeline", "run", "rolup", code=4).err


def test_ready_made_pipelines_are_listed(cli: CommandLine) -> None:
    names = [row[0] for row in cli("pipeline", "templates").rows]
    assert names == ["alerts", "archive", "mirror", "replay", "rollup"]
    assert [one["name"] for one in cli("pipeline", "templates", "--json").json] == names


def test_without_java_a_sentence_says_what_to_install(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(java, "_USUAL_PLACES", ())
    said = cli("pipeline", "run", "rollup", "--timeout", "0.1", code=3).err
    assert said.startswith("Spark needs Java 17 or later, and there is none here")
    assert len(said.splitlines()) == 2  # and there is no broker


@pytest.mark.parametrize(
    ("database", "sentence"),
    [
        ("mysql://host/name", "sink table: a database at mysql: needs the Python module MySQLdb"),
        ("foo://host/name", "sink table: SQLAlchemy knows no database foo:"),
        ("nonsense", "database of [[sinks]] table must be an address, such as"),
        ("://host/name", "sink table: this is no address of a database"),
    ],
)
def test_a_database_without_its_driver_is_told_before_spark_starts(
    cli: CommandLine, database: str, sentence: str
) -> None:
    said = cli("pipeline", "run", "rollup", "-p", f"database={database}", code=1).err
    assert re.match(rf"rollup\.toml:\d+: {re.escape(sentence)}", said)
    assert len(said.splitlines()) == 1


TRACE = """\
Traceback (most recent call last):
  File "runner.py", line 279, in main
    self.freeze()
    ^^^^^^^^^^^^^
{error}
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[PYTHON_ERROR] Failed when reading: "
            + TRACE.format(
                error="moldau.client.errors.UnknownTopicError: UNKNOWN_TOPIC_OR_PARTITION: "
                "There is no topic 'events'"
            )
            + " SQLSTATE: 38000\n=== Streaming Query ===\nIdentifier: x",
            "There is no topic 'events'",
        ),
        (
            TRACE.format(error="KeyError: 1") + "\nDuring handling …\n\n"
            + TRACE.format(error="ValueError: the first\nand the second line")
            + "\n\tat org.apache.spark.api.python.X(Y.scala:1)",
            "ValueError: the first\nand the second line",
        ),
        (TRACE.format(error="moldau.spark.options.OptionError: Option x: bad"), "Option x: bad"),
        (TRACE.format(error="KeyboardInterrupt"), "KeyboardInterrupt"),
        (
            "[MISSING_AGGREGATION] No sum. SQLSTATE: 42803;\n~Aggregate [x#1]\n+- ~Relation [k=v]",
            "[MISSING_AGGREGATION] No sum.",
        ),
        (
            "[UNRESOLVED] No `x`. SQLSTATE: 42703; line 1 pos 7;\n'Project ['x]\n+- Relation [k=v]",
            "[UNRESOLVED] No `x`. SQLSTATE: 42703; line 1 pos 7",
        ),
        (
            TRACE.format(
                error="py4j.protocol.Py4JJavaError: An error occurred while calling o801.parquet.\n"
                ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in "
                "stage 14.0 failed 1 times, most recent failure: Lost task 0.0 in stage 14.0 "
                "(TID 17) (host executor driver): java.io.IOException: Mkdirs failed\n"
                "\tat org.apache.hadoop.fs.X(Y.java:1)"
            ),
            "IOException: Mkdirs failed",
        ),
        (
            "An error occurred while calling None.X.\n: o.Y: No master!\n\tat o.Y(Y.scala:1)",
            "No master!",
        ),
        (
            "[TABLE_NOT_FOUND] Table `x` … SQLSTATE: 42P01; line 1\n\nJVM stacktrace:\norg.apache",
            "[TABLE_NOT_FOUND] Table `x` … SQLSTATE: 42P01; line 1",
        ),
    ],
)  # fmt: skip
def test_failures_are_told_without_their_stacks(text: str, sentence: str) -> None:
    assert reason(text) == sentence


FILE = """\
name = "p"
[[sources]]
name = "events"
topic = "events"
fail_on_data_loss = true
options = { "maxOffsetsPerTrigger" = 3 }
[[steps]]
name = "made"
sql = '''
SELECT value
FROM events'''
[[sinks]]
from = "made"
console = true
"""


def test_failures_are_told_in_keys_with_their_lines() -> None:
    pipeline = parse_pipeline(FILE, "p.toml")
    said = failure(pipeline, pipeline.sinks[0], "sink made", ValueError("Something"))
    assert str(said) == "p.toml:12: sink made: Something"
    lost = ValueError(
        TRACE.format(error="moldau.spark.offsets.DataLossError: gone. Set the option "
                     "failOnDataLoss to false.")
    )  # fmt: skip
    said = failure(pipeline, pipeline.sinks[0], "sink made", lost)
    assert str(said) == "p.toml:5: sink made: gone. Set fail_on_data_loss to false."
    # By the name that the file itself has.
    said = failure(
        pipeline, pipeline.sinks[0], "sink made", ValueError("Option maxOffsetsPerTrigger: bad")
    )
    assert str(said) == "p.toml:12: sink made: Option maxOffsetsPerTrigger: bad"
    said = failure(
        pipeline, pipeline.steps[0], "step made", ValueError("[X] No such thing; line 2, pos 5")
    )
    assert str(said) == "p.toml:11: step made: [X] No such thing"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("moldau.client.errors.UnknownTopicError: There is no topic 'x'", "missing"),
        ("moldau.client.errors.NoBrokersError: nobody", "unreachable"),
        ("moldau.request_errors.TimedOutError: silence", "late"),
        ("ValueError: x", "wrong"),
    ],
)
def test_failures_have_the_exit_codes_of_their_causes(error: str, kind: str) -> None:
    pipeline = parse_pipeline(FILE, "p.toml")
    said = failure(pipeline, pipeline.sinks[0], "sink", ValueError(TRACE.format(error=error)))
    assert said.kind == kind


REPORT = {
    "batchId": 7,
    "timestamp": "2026-01-01T00:00:00.000Z",
    "processedRowsPerSecond": 12.345,
    "durationMs": {"triggerExecution": 250},
    "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
    "stateOperators": [{"numRowsTotal": 4, "numRowsDroppedByWatermark": 1}],
    "sources": [
        {
            "numInputRows": 3,
            "endOffset": {"t": {"0": 5, "1": 2}},
            "latestOffset": {"t": {"0": 9, "1": 2}},
        },
        {"numInputRows": 1, "endOffset": {"logOffset": 3}, "latestOffset": None},
    ],
}


def test_status_is_read_from_the_checkpoint(cli: CommandLine, tmp_path: Path) -> None:
    assert "no checkpoint" in cli("pipeline", "status", "rollup", code=1).err
    checkpoint = tmp_path / "checkpoints" / "rollup"
    for folder in ("offsets", "commits"):
        (checkpoint / "topic" / folder).mkdir(parents=True)
    log = checkpoint / "topic" / "offsets"
    for batch in (6, 7, 8):
        offsets = json.dumps({"events": {"0": batch, "1": 1}})
        (log / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":{batch * 1000}}}\n{offsets}')
    (checkpoint / "topic" / "commits" / "7").write_text("v1\n{}")
    write_progress(checkpoint, {"topic": progress_of("topic", REPORT)})
    # Nobody listens there: the lag is unknown.
    found = cli("pipeline", "status", "rollup", "--json", "--timeout", "0.5",
                "-p", "bootstrap=127.0.0.1:1").json["sinks"]  # fmt: skip
    assert [one["sink"] for one in found] == ["topic", "table"]
    assert (found[0]["batch"], found[0]["planned"]) == (7, 8)
    assert found[0]["offsets"] == {"events": {"0": 7, "1": 1}}
    assert found[0]["watermark"] == "1970-01-01T00:00:07+00:00"
    assert found[0]["lag"] is None
    assert found[0]["progress"]["rows"] == 4
    assert found[1]["batch"] is None
    assert read_state(checkpoint, "nothing").planned is None


def test_progress_is_shown_in_few_numbers() -> None:
    progress = progress_of("out", REPORT)
    assert (progress.rows, progress.rows_per_second, progress.batch_ms) == (4, 12.3, 250)
    assert (progress.lag, progress.state_rows, progress.late_rows) == (4, 4, 1)
    table = table_of({"out": progress, "other": None}, {"out": 1234, "other": 0})
    cells = [list(column.cells) for column in table.columns]
    assert [str(column.header) for column in table.columns] == [
        "SINK", "READ", "ROWS", "ROWS/S", "LAG", "BATCH", "TIME", "WATERMARK", "LATE",
    ]  # fmt: skip
    assert [mine for mine, _ in cells[2:]] == [
        "1,234", "12", "4", "7", "0.2 s", "2026-01-01 00:00:00", "1",
    ]  # fmt: skip
    assert [str(other) for _, other in cells] == ["other", *["-"] * 8]
    bar = cells[1][0]
    assert (bar.completed, bar.total) == (1234, 1238)
    narrow = table_of({"out": progress}, {"out": 1234}, 50)
    assert [str(column.header) for column in narrow.columns] == [
        "SINK", "ROWS", "ROWS/S", "LAG", "TIME",
    ]  # fmt: skip

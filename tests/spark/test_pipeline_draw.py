"""Pipelines to look at: boxes that stand apart, lines that pass no box, nothing secret."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.support.cli import CommandLine

from moldau.spark.pipeline.draw.layers import layers_of, tops
from moldau.spark.pipeline.draw.model import Box, Column, Drawing, drawing_of
from moldau.spark.pipeline.draw.svg import svg_of
from moldau.spark.pipeline.draw.terminal import drawn, listed
from moldau.spark.pipeline.load import load_pipeline, ready_made
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.sql.check import check_sql

SVG = "{http://www.w3.org/2000/svg}"
FILE = """\
name = "visits"
[[sources]]
name = "visits"
topic = "visits"
value_format = "json"
value_schema = "page STRING, visitor BIGINT"
[[sources]]
name = "pages"
files = "pages/"
format = "json"
schema = "page STRING, title STRING"
streaming = false
[[sources]]
name = "people"
table = "people"
database = "postgresql+psycopg://me:secret@host/db"
[[steps]]
name = "seen"
sql = "SELECT value.page AS page, value.visitor AS visitor, timestamp FROM visits"
[[steps]]
name = "known"
join = { left = "seen", right = "pages", on = ["page"], how = "left" }
[[steps]]
name = "per_minute"
[steps.window]
from = "known"
size = "1m"
watermark = "10m"
group_by = ["page"]
aggregate = { visits = "count(*)" }
[[sinks]]
from = "per_minute"
topic = "visits-per-minute"
key = "page"
value = "to_json(struct(*))"
[[sinks]]
from = "visits"
name = "archive"
parquet = "archive/"
[[sinks]]
from = "people"
name = "copies"
table = "copies"
database = "postgresql+psycopg://me:secret@host/db"
keys = ["id"]
"""


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.toml").write_text(FILE)
    return CommandLine("", capsys)


def drawing(text: str = FILE) -> Drawing:
    pipeline = parse_pipeline(text, "visits.toml")
    return drawing_of(pipeline, check_sql(pipeline).frames)


def box(name: str, kind: str = "") -> Box:
    return next(one for one in drawing().boxes if one.name == name and kind in ("", one.kind))


def test_boxes_say_what_they_are_and_have() -> None:
    assert [column.name for column in box("visits").columns] == [
        "key", "value.page", "value.visitor", "timestamp",
    ]  # fmt: skip
    assert box("visits").columns[2] == Column("value.visitor", "bigint")
    assert box("visits").columns[0] == Column("key", "binary")
    assert box("visits").more == "and topic, partition, offset …"
    assert box("seen").columns[1] == Column("visitor", "bigint")
    assert [column.name for column in box("per_minute", "step").columns] == [
        "window_start", "window_end", "page", "visits",
    ]  # fmt: skip
    assert box("per_minute", "step").label == "window of 1 m, 10 m late"
    assert box("known").label == "left join on page"
    assert box("people").more == "columns: only Spark knows"
    assert not box("people").streaming
    assert not box("copies").streaming
    assert box("known").streaming
    assert box("archive").label == "parquet archive/"
    assert box("copies").label == "table copies (postgresql), by id"
    sink = box("per_minute", "sink")
    assert sink.columns == (Column("key", "= page"), Column("value", "= to_json(struct(*))"))
    edges = {(drawing().boxes[one].name, drawing().boxes[other].name)
             for one, other in drawing().edges}  # fmt: skip
    assert edges == {
        ("visits", "seen"), ("seen", "known"), ("pages", "known"), ("known", "per_minute"),
        ("per_minute", "per_minute"), ("visits", "archive"), ("people", "copies"),
    }  # fmt: skip


def tangle() -> Drawing:
    """Steps that all read from several others."""
    boxes = [Box("source", f"s{at}", "x", (Column("a"),) * (at % 4)) for at in range(5)]
    edges = []
    for at in range(20):
        edges += [(len(boxes) - back, len(boxes)) for back in (1, 3 + at % 3)]
        boxes.append(Box("step", f"p{at}", "x", (Column("a"),) * (at % 6)))
    for at in range(4):
        edges.append((5 + 4 * at, len(boxes)))
        boxes.append(Box("sink", f"k{at}", "x"))
    return Drawing("tangle", tuple(boxes), tuple(dict.fromkeys(edges)))


@pytest.mark.parametrize("which", [*ready_made(), "visits", "tangle"])
def test_nothing_is_drawn_over_anything(which: str) -> None:
    if which == "tangle":
        shown = tangle()
    elif which == "visits":
        shown = drawing()
    else:
        pipeline = load_pipeline(which)
        shown = drawing_of(pipeline, check_sql(pipeline).frames)
    root = ET.fromstring(svg_of(shown))
    rects = [one for one in root.iter(f"{SVG}rect") if one.get("class") == "box"]
    assert len(rects) == len(shown.boxes)
    places = [
        tuple(float(one.attrib[key]) for key in ("x", "y", "width", "height")) for one in rects
    ]
    width, height = (float(root.attrib[key]) for key in ("width", "height"))
    for x, y, wide, high in places:
        assert x >= 0
        assert y >= 40
        assert x + wide <= width
        assert y + high <= height
    for one, other in itertools.combinations(places, 2):
        apart = (
            one[0] + one[2] < other[0] or other[0] + other[2] < one[0]
            or one[1] + one[3] < other[1] or other[1] + other[3] < one[1]
        )  # fmt: skip
        assert apart, (one, other)
    edges = [one for one in root.findall(f"{SVG}path") if "edge" in one.attrib["class"]]
    assert len(edges) == len(shown.edges)
    for edge in edges:
        # Through a column of boxes lines go straight, past all of them.
        numbers = [float(one) for one in re.findall(r"-?[\d.]+", edge.attrib["d"])]
        points = list(zip(numbers[::2], numbers[1::2], strict=True))
        for x, y in points:
            for left, top, wide, high in places:
                assert not (left < x < left + wide and top < y < top + high), (x, y)
    lines = [line.plain for line in drawn(shown)]
    text = "\n".join(lines)
    assert text.count("╭") >= len(shown.boxes)
    for drawn_box in shown.boxes:
        assert f"│ {drawn_box.name}" in text
        assert any(drawn_box.name in line.plain for line in listed(shown))


def test_lines_on_a_terminal_arrive() -> None:
    """Each box that reads has a tip at its name."""
    shown = drawing()
    text = "\n".join(line.plain for line in drawn(shown))
    for one in shown.boxes:
        reads = one.kind != "source"
        assert bool(re.search(rf"▶│ {one.name} .*{one.kind}", text)) == reads, one.name
    assert "┼" not in text  # nothing crosses that need not


def test_neighbours_stand_beside_what_they_read() -> None:
    shown = Drawing(
        "line",
        (Box("source", "a", "x"), Box("step", "b", "x"), Box("sink", "c", "x")),
        ((0, 1), (1, 2)),
    )
    layers = layers_of(shown)
    assert layers.columns == [[0], [1], [2]]
    places = tops(layers, dict.fromkeys(range(3), 10.0), dict.fromkeys(range(3), 2.0), 5.0)
    assert set(places.values()) == {0.0}


def test_a_graph_by_command(cli: CommandLine, tmp_path: Path) -> None:
    said = cli("pipeline", "graph", "visits.toml").out
    assert "│ per_minute" in said
    assert "secret" not in said
    assert cli("pipeline", "graph", "visits.toml", "--svg", "visits.svg").out == "visits.svg\n"
    text = (tmp_path / "visits.svg").read_text()
    ET.fromstring(text)
    assert "secret" not in text
    assert "prefers-color-scheme:dark" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_names_cannot_leave_their_place() -> None:
    text = FILE.replace('"archive/"', '"</text><script>"')
    ET.fromstring(svg_of(drawing(text)))
    assert "<script>" not in svg_of(drawing(text))

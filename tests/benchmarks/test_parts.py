"""The parts of benchmarks that compute: counting answers, steadiness, goals, growth, pages."""

from __future__ import annotations

import itertools
import os
import struct
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from bench import loads, page
from bench.curves_svg import Panel
from bench.curves_svg import draw as draw_curves
from bench.figures import Name, Runs
from bench.flame_svg import draw
from bench.processes import Neighbours, family_cpu_seconds
from bench.report import Goal, Table
from bench.scaling import Curve
from bench.targets import Moldau, in_turns
from bench.warming import unsteadiness, warm
from hypothesis import given
from hypothesis import strategies as st

MOLDAU, KAFKA = Name("Moldau"), Name("Apache Kafka")


@given(st.lists(st.integers(0, 40), max_size=20), st.data())
def test_answers_are_counted_however_they_are_cut(sizes: list[int], data: st.DataObject) -> None:
    stream = b"".join(struct.pack(">i", size) + bytes(size) for size in sizes)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    answers = loads.Answers()
    counted = 0
    for start, end in itertools.pairwise([0, *cuts, len(stream)]):
        if end > start:
            loads.memory[4 : 4 + end - start] = stream[start:end]
            counted += answers.count(end - start)
    assert counted == len(sizes)


def test_warm_is_who_had_three_rounds_within_five_percent() -> None:
    figures = {"falls": iter([9.0, 5.0, 3.0, 2.0, 2.05, 2.09]), "steady": itertools.repeat(1.0)}
    rounds = {name: lambda each=each: next(each) for name, each in figures.items()}
    warmth = warm(rounds, limit_s=60)
    assert warmth.rounds == 6
    assert not warmth.unsteady
    assert "warm after 0 s, 6 rounds, the last 3 of each figure within 5%." in warmth.text("It")


def test_who_is_not_steady_in_time_is_named() -> None:
    figures, seconds = itertools.count(1), itertools.count()
    grows = {"grows": lambda: float(next(figures))}
    warmth = warm(grows, limit_s=4, clock=lambda: float(next(seconds)))
    assert warmth.rounds == 4
    assert warmth.unsteady == {"grows": pytest.approx(1.0)}
    assert "not steady" in warmth.text("It")
    assert warmth.text("It").endswith("the limit of time; the last 3 apart by: grows 100%.")


def test_too_few_rounds_tell_nothing() -> None:
    warmth = warm({"once": lambda: 1.0}, limit_s=0)
    assert warmth.rounds == 1
    assert unsteadiness([1.0]) == float("inf")
    assert "too few to tell" in warmth.text("It")


@pytest.mark.parametrize(
    ("goal", "ours", "theirs", "met"),
    [
        (Goal(at_least_ratio=1.3), 13, 10, True),
        (Goal(at_least_ratio=1.3), 12, 10, False),
        (Goal(at_most_ratio=0.6), 6, 10, True),
        (Goal(at_most_ratio=0.6), 7, 10, False),
        (Goal(at_most=70), 71, None, False),
        (Goal(at_most_ratio=0.6), 7, None, None),
    ],
)
def test_goals(goal: Goal, ours: float, theirs: float | None, met: bool | None) -> None:
    assert goal.is_met(ours, theirs) is met


def test_the_exponent_of_a_curve_is_that_of_the_cost_of_all() -> None:
    runs = Runs()
    for size in (1, 10, 100):
        runs.add(f"linear-{size}", MOLDAU, 3.0)
        runs.add(f"square-{size}", MOLDAU, 3.0 * size)
    sizes = (1, 10, 100)
    linear = Curve("linear", "", "µs", 1, sizes, per_one=True)
    square = Curve("square", "", "µs", 1, sizes, per_one=True)
    assert linear.exponent(runs, "Moldau") == pytest.approx(1)
    assert square.exponent(runs, "Moldau") == pytest.approx(2)
    assert square._replace(per_one=False).exponent(runs, "Moldau") == pytest.approx(1)
    assert square.exponent(runs, "Apache Kafka") is None


def test_what_descendants_take_is_not_taken_by_others() -> None:
    neighbours = Neighbours()
    before = family_cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    assert family_cpu_seconds(os.getpid()) > before
    assert 0 <= neighbours.share() <= 1.5


def test_figures_are_medians_with_their_spread() -> None:
    runs = Runs()
    for figure in (1000.0, 3000.0, 2000.0):
        runs.add("rate", MOLDAU, figure)
    runs.add("rate", KAFKA, 1000.0)
    assert runs.text("rate", "Moldau", 0, "requests/s") == "2,000 requests/s (1,000–3,000)"
    assert runs.text("rate", "Apache Kafka") == "1,000"
    assert runs.text("other", "Moldau") == ""
    assert runs.ratio("rate", "Moldau", "Apache Kafka") == 2


def test_everybody_has_every_turn(tmp_path: Path) -> None:
    targets = [Moldau(tmp_path / str(number)) for number in range(3)]
    orders = {tuple(map(id, in_turns(targets, number))) for number in range(6)}
    assert len(orders) == 6


def test_tables_replace_what_is_between_the_markers_of_their_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begin, end = page.markers("broker")
    for name in ("PAGE", "README"):
        path = tmp_path / name
        path.write_text(f"before\n{begin}stale\n{end}\nafter\n")
        monkeypatch.setattr(page, name, path)
    own = Table("Warm", ("work", "Moldau"), [("fetch", "1")], ["It was warm."])
    page.write("broker", [own, own._replace(title="Short", for_readme=True)], others=0.25)
    for name, title, other in (("PAGE", "Warm", "Short"), ("README", "Short", "Warm")):
        text = (tmp_path / name).read_text()
        assert text.startswith("before\n")
        assert text.endswith("\nafter\n")
        assert f"**{title}**" in text
        assert other not in text.replace("It was warm.", "")
        assert "stale" not in text
        assert "others took 25% of the machine meanwhile" in text
    with pytest.raises(RuntimeError, match="no place for latency"):
        page.write("latency", [own], others=0.0)


def test_a_flame_graph_has_the_share_of_every_frame_that_is_not_tiny() -> None:
    svg = draw("Title <1>", ["a;b (x.py) 600", "a 399", "a;tiny 1"])
    assert "Title &lt;1&gt;" in svg
    assert "<title>a, 100.0%</title>" in svg
    assert "<title>b (x.py), 60.0%</title>" in svg
    assert "tiny" not in svg
    with pytest.raises(ValueError, match="no samples"):
        draw("", [])


def test_curves_of_both_sides_are_drawn_with_the_figures_at_their_ends() -> None:
    ours, theirs = [(1, 2.0), (100, 40.0)], [(1, 8.0), (100, 41.0)]
    picture = draw_curves([Panel("cost <of all>", "MB", {"Moldau": ours, "Kafka": theirs})])
    root = ET.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in root.iter(f"{space}text")]
    assert {"Moldau", "Kafka", "cost <of all>", "MB", "1", "100", "40", "41"} <= set(texts)
    lines = [line.attrib["points"].split() for line in root.iter(f"{space}polyline")]
    assert len(lines) == 2
    for line in lines:
        heights = [float(point.split(",")[1]) for point in line]
        assert heights[1] < heights[0]  # a larger cost is further up
    ends = [
        float(text.attrib["y"]) for text in root.iter(f"{space}text") if text.text in ("40", "41")
    ]
    assert abs(ends[0] - ends[1]) >= 13  # one does not cover the other

"""The page about a pipeline's runs, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.browser import browser, prefer, resize
from tests.spark.histories import BATCHES, FILE, make_history
from tests.support.cli import CommandLine

from moldau.spark.pipeline.lags import Lag
from moldau.spark.pipeline.report.charts import Span, time_ticks, value_ticks
from moldau.spark.pipeline.report.series import Point, thinned
from moldau.spark.pipeline.report.words import count, duration, size
from moldau.spark.pipeline.runs.history import History

CONTRAST = """
function light(text) {
  const parts = text.match(/[\\d.]+/g).slice(0, 3).map(Number).map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}
const worst = [];
for (const [inner, outer] of [["body", "body"], [".tile span", ".tile"], [".now", "figure"],
                              [".about", "body"], ["td.said", ".card"], [".state", "body"]]) {
  const one = light(getComputedStyle(document.querySelector(inner)).color);
  const two = light(getComputedStyle(document.querySelector(outer)).backgroundColor);
  worst.push((Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05));
}
return Math.min(...worst);
"""
OVERLAPS = """
const found = [];
for (const chart of document.querySelectorAll("figure svg")) {
  const boxes = [...chart.querySelectorAll(".tick")]
    .map(t => [t.textContent, t.getBoundingClientRect()]);
  for (let i = 0; i < boxes.length; i++) for (let j = 0; j < i; j++) {
    const [a, b] = [boxes[i][1], boxes[j][1]];
    if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
      found.push([chart.getAttribute("aria-label"), boxes[i][0], boxes[j][0]]);
  }
}
return found;
"""


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.toml").write_text(FILE)
    return CommandLine("", capsys)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser() as driver:
        yield driver


def test_a_report_opens_in_a_browser(cli: CommandLine, page: Any, tmp_path: Path) -> None:
    assert "nothing to report" in cli("pipeline", "report", "visits.toml", code=1).err
    place = tmp_path / "checkpoints" / "visits"
    place.mkdir(parents=True)
    make_history(place)
    said = cli("pipeline", "report", "visits.toml", "-o", "report.html").out
    assert said == "report.html\n"
    page.get((tmp_path / "report.html").as_uri())
    # Nothing is fetched, and nothing complains.
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.get_log("browser") == []
    text = page.execute_script("return document.body.innerText")
    for word in ("visits", "visits of pages per minute", "Rows a second", "Time of a batch",
                 "Lag, in records", "Watermark behind", "Rows in state", "Memory of the state",
                 "No broker of 10.0.0.7:9092 can be reached", "per_minute"):  # fmt: skip
        assert word in text, word
    assert page.title == "visits"
    shown = page.execute_script(
        "return [...document.querySelectorAll('figure')].map(f => [f.querySelector('b').innerText,"
        " f.querySelectorAll('.line').length,"
        " f.querySelector('svg').getBoundingClientRect().height,"
        " f.querySelectorAll('.event.restarting').length])"
    )
    assert len(shown) >= 7
    lines = {name: count for name, count, _, _ in shown}
    assert lines["Rows a second"] == 3
    assert all(height > 100 and marks == 1 for _, _, height, marks in shown)
    # Of the time without brokers nobody knows anything.
    gaps = page.execute_script("return document.querySelector('.line').getAttribute('d')")
    assert gaps.count("M") == 2
    points = page.execute_script("return document.querySelector('.line').getAttribute('d')")
    assert 100 < points.count("L") < BATCHES / 2
    for scheme in ("light", "dark"):
        prefer(page, scheme)
        assert page.execute_script(CONTRAST) > 4.5, scheme
        for width in (1280, 420):
            resize(page, width, 900)
            wide = page.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, (scheme, width)
            assert page.execute_script(OVERLAPS) == []
    grounds = set()
    for scheme in ("light", "dark"):
        prefer(page, scheme)
        grounds.add(
            page.execute_script(
                "return getComputedStyle(document.querySelector('.box')).fill + "
                "getComputedStyle(document.body).backgroundColor"
            )
        )
    assert len(grounds) == 2


def test_a_graph_opens_in_a_browser(cli: CommandLine, page: Any, tmp_path: Path) -> None:
    cli("pipeline", "graph", "visits.toml", "--svg", "visits.svg")
    page.get((tmp_path / "visits.svg").as_uri())
    # What is written is in its box, whatever fonts there are.
    outside = page.execute_script(
        "return [...document.querySelectorAll('g > text')].filter(t => {"
        "const b = t.parentNode.querySelector('.box').getBBox(), a = t.getBBox();"
        "return a.x < b.x || a.x + a.width > b.x + b.width || a.y + a.height > b.y + b.height;"
        "}).map(t => t.textContent)"
    )
    assert outside == []
    fills = set()
    for scheme in ("light", "dark"):
        prefer(page, scheme)
        fills.add(
            page.execute_script("return getComputedStyle(document.querySelector('.name')).fill")
        )
    assert len(fills) == 2


def test_what_counts_is_told(cli: CommandLine, page: Any, tmp_path: Path) -> None:
    """Dead letters and expectations, where a pipeline has them; names cannot leave their place."""
    place = tmp_path / "checkpoints" / "visits"
    place.mkdir(parents=True)
    history = History(place)
    for batch in range(2):
        time = f"2026-01-01T00:00:0{batch}.000Z"
        for sink in ("<b>out</b>", "other"):
            counts = {"seen": {"<i>positive</i>": {"passed": 7, "failed": 3}}}
            line = {"sink": sink, "batch": batch, "time": time, "rows": 10, "batch_ms": 50}
            history._append({**line, "expectations": counts})
        history.watched({"visits": Lag(5, 90.0)}, {"visits.bad": 2 + 2 * batch}, time)
    cli("pipeline", "report", "visits.toml", "-o", "report.html")
    page.get((tmp_path / "report.html").as_uri())
    text = page.execute_script("return document.body.innerText")
    assert "seen · <i>positive</i>" in text
    assert "Dead letters" in text
    assert "Lag, in time" in text
    # Both sinks read the rows that the rule is about: they are counted once.
    [row] = page.execute_script(
        "return [...document.querySelectorAll('tr')].filter(r => r.innerText.includes('positive'))"
        ".map(r => [...r.cells].map(c => c.innerText))"
    )
    assert row == ["seen · <i>positive</i>", "14", "6", "30.00%"]
    tiles = page.execute_script(
        "return [...document.querySelectorAll('.tile')].map(t => t.innerText.split('\\n'))"
    )
    assert ["4", "dead letters"] in tiles
    assert ["20", "rows"] in tiles
    assert page.execute_script("return document.querySelectorAll('main b b, td i').length") == 0


def test_axes_are_round() -> None:
    assert value_ticks(0) == [0, 1]
    assert value_ticks(87) == [0, 25, 50, 75, 100]
    assert value_ticks(4.1)[-1] >= 4.1
    minute = time_ticks(Span(1000.0, 1060.0))
    assert len(minute) >= 3
    assert all(at % 10 == 0 for at, _ in minute)
    year = time_ticks(Span(0.0, 365 * 86400.0))
    assert 2 <= len(year) <= 8
    assert time_ticks(Span(5.0, 5.0)) is not None


def test_many_points_become_few() -> None:
    points = [Point(float(at), float(at % 100)) for at in range(10_000)]
    few = thinned(points, max, 100)
    assert len(few) == 100
    assert {one.value for one in few} == {99.0}
    assert few == sorted(few)


def test_numbers_are_for_people() -> None:
    assert [count(one) for one in (0, 999, 1234, 12_345, 4_500_000, 0.25)] == [
        "0", "999", "1,234", "12.3 k", "4.5 M", "0.25",
    ]  # fmt: skip
    assert [duration(one) for one in (0, 0.25, 4.2, 60, 7200, 200_000)] == [
        "0 s", "250 ms", "4.2 s", "60 s", "2 h", "2.31 d",
    ]  # fmt: skip
    assert [size(one) for one in (10, 2048, 3 << 30)] == ["10 B", "2 KiB", "3 GiB"]

"""Pictures for docs/pipelines.md and its reference: a graph, and a report as a browser shows it.

    .venv/bin/python tools/pipeline_pictures.py

Needs chromium and its driver.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.spark.browser import browser, prefer, resize
from tests.spark.histories import BATCHES, START, STEP, make_history, moment, pipeline

from moldau.spark.pipeline.draw.model import drawing_of
from moldau.spark.pipeline.draw.svg import svg_of
from moldau.spark.pipeline.report.page import page
from moldau.spark.pipeline.runs.history import History
from moldau.spark.pipeline.runs.record import RunRecord
from moldau.spark.pipeline.sql.check import check_sql

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"


def main() -> None:
    declared = pipeline()
    svg = svg_of(drawing_of(declared, check_sql(declared).frames))
    (PICTURES / "pipeline-graph.svg").write_text(svg)
    run = RunRecord(
        pipeline="visits",
        file="/srv/pipelines/visits.toml",
        checkpoint="/srv/pipelines/checkpoints/visits",
        master=declared.master,
        host="etl-1",
        pid=4711,
        process=None,
        started=moment(START),
        state="running",
        since=moment(START + 1110 * STEP),
        restarts=1,
    )
    with tempfile.TemporaryDirectory() as temporary, browser(1240) as driver:
        make_history(Path(temporary))
        file = Path(temporary) / "report.html"
        lines = History(Path(temporary)).read()
        file.write_text(page(declared, run, lines, svg, START + BATCHES * STEP))
        for scheme, name in (("light", "pipeline-report"), ("dark", "pipeline-report-dark")):
            prefer(driver, scheme)
            driver.get(file.as_uri())
            # The charts and the rules: errors, graph and batches are below.
            height = driver.execute_script(
                "return document.querySelectorAll('h2')[2].getBoundingClientRect().top"
            )
            resize(driver, 1240, int(height))
            time.sleep(0.2)
            driver.save_screenshot(str(PICTURES / f"{name}.png"))
            print(PICTURES / f"{name}.png")


if __name__ == "__main__":
    main()

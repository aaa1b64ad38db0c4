"""All checks side by side, each for a few seconds at most."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Final

from moldau.spark.pipeline.preflight.checkpoints import check_checkpoints
from moldau.spark.pipeline.preflight.clusters import check_clusters
from moldau.spark.pipeline.preflight.found import Columns, Findings
from moldau.spark.pipeline.preflight.places import (
    check_java,
    check_master,
    check_registry_of,
    check_server,
)
from moldau.spark.pipeline.spec import Pipeline, TableSink, TableSource, TopicSource

_GRACE: Final = 2.0
"""For what keeps to its time roughly."""


def preflight(pipeline: Pipeline, patience: float, columns: Columns | None = None) -> Findings:
    """What speaks against running it here and now, all of it at once.

    ``columns``: of sources and steps, by name in lower case, as far as they are known.
    """
    found = check_server(pipeline, patience) if pipeline.remote else Findings()
    if found.problems:
        return found
    for one in _side_by_side(
        _checks(pipeline, patience, columns or {}), patience + _GRACE, pipeline
    ):
        found.add(one)
    found.problems += check_checkpoints(pipeline, found)
    if pipeline.remote:
        # The server is the one that has to reach them, and it may see another network.
        found.notes += [f"Seen from here: {one.message}" for one in found.problems]
        found.problems.clear()
    return found


def _checks(
    pipeline: Pipeline, patience: float, columns: Columns
) -> dict[str, Callable[[], Findings]]:
    checks: dict[str, Callable[[], Findings]] = {
        "clusters": partial(check_clusters, pipeline, patience)
    }
    if not pipeline.remote:
        checks["Java"] = check_java
        checks["master"] = partial(check_master, pipeline, patience)
    for part in (*pipeline.sources, *pipeline.sinks):
        if isinstance(part, (TableSource, TableSink)):
            checks[f"database of {part.name}"] = partial(
                _database, pipeline, part, columns, patience
            )
        elif isinstance(part, TopicSource) and "schema.registry.url" in part.options:
            checks[f"schema_registry of {part.name}"] = partial(
                check_registry_of, pipeline, part, patience
            )
    return checks


def _database(
    pipeline: Pipeline, part: TableSource | TableSink, columns: Columns, patience: float
) -> Findings:
    from moldau.spark.pipeline.preflight.databases import check_database  # and SQLAlchemy

    return check_database(pipeline, part, columns, patience)


def _side_by_side(
    checks: dict[str, Callable[[], Findings]], patience: float, pipeline: Pipeline
) -> list[Findings]:
    """In threads that nobody waits for in the end: a driver of a database may know no timeout."""
    done: dict[str, Findings] = {}
    failed: list[BaseException] = []

    def run(name: str, check: Callable[[], Findings]) -> None:
        try:
            done[name] = check()
        except BaseException as error:  # raised in the caller's thread
            failed.append(error)

    threads = {
        name: Thread(target=run, args=(name, check), name=f"preflight {name}", daemon=True)
        for name, check in checks.items()
    }
    end = time.monotonic() + patience
    for thread in threads.values():
        thread.start()
    late = []
    for name, thread in threads.items():
        thread.join(max(0.0, end - time.monotonic()))
        if thread.is_alive():
            problem = pipeline.problem((), f"{name}: no answer within {patience:g} s")
            late.append(Findings(problems=[problem]))
    if failed:
        raise failed[0]
    return [*done.values(), *late]

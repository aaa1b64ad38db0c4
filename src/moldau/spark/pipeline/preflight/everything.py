"""All checks side by side, each for a few seconds at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Final

from moldau.spark.pipeline.checkpoint import Planned
from moldau.spark.pipeline.preflight.checkpoints import (
    check_checkpoints,
    known_slots,
    read_planned,
)
from moldau.spark.pipeline.preflight.clusters import check_cluster, clusters_of
from moldau.spark.pipeline.preflight.found import Columns, Findings
from moldau.spark.pipeline.preflight.places import (
    check_java,
    check_master,
    check_metrics,
    check_registry_of,
    check_server,
)
from moldau.spark.pipeline.preflight.tables import check_folders, check_release
from moldau.spark.pipeline.problems import Kind
from moldau.spark.pipeline.spec import (
    ChangesSource,
    Pipeline,
    TableSink,
    TableSource,
    TopicSource,
)
from moldau.toml_places import Path

_GRACE: Final = 2.0
"""For what keeps to its time roughly."""
_LONGEST: Final = 200
"""Characters of an exception that nobody has thought of."""


@dataclass(frozen=True)
class Check:
    """One of the checks, and what is told if it does not end."""

    name: str
    run: Callable[[], Findings]
    place: Path = ()
    kind: Kind = "wrong"


def preflight(pipeline: Pipeline, patience: float, columns: Columns | None = None) -> Findings:
    """What speaks against running it here and now, all of it at once.

    ``columns``: of sources and steps, by name in lower case, as far as they are known.
    """
    found = Findings()
    if pipeline.remote:
        place = ("spark", "master")
        server = Check("the Spark Connect server", partial(check_server, pipeline, patience), place)
        found.add(side_by_side([server], patience + _GRACE, pipeline))
        if found.problems:
            return found
    planned: Planned = {}

    def read() -> Findings:
        nonlocal planned
        planned = read_planned(pipeline)
        return Findings()

    found.add(_run(Check("the checkpoint", read)))
    checks = list(_checks(pipeline, patience, columns or {}, planned))
    found.add(side_by_side(checks, patience + _GRACE, pipeline))
    compare = partial(check_checkpoints, pipeline, planned, found)
    found.add(_run(Check("the checkpoint", lambda: Findings(problems=compare()))))
    if pipeline.remote:
        # The server is the one that has to reach them, and it may see another network.
        found.notes += [f"Seen from here: {one.message}" for one in found.problems]
        found.problems.clear()
    return found


def _checks(
    pipeline: Pipeline, patience: float, columns: Columns, planned: Planned
) -> Iterator[Check]:
    for use in clusters_of(pipeline):
        ask = partial(check_cluster, use, planned, patience)
        yield Check(f"the cluster {use.servers}", ask, use.place, "late")
    yield Check("the port of metrics", partial(check_metrics, pipeline), ("metrics",))
    if not pipeline.remote:
        yield Check("Java", check_java)
        master = partial(check_master, pipeline, patience)
        yield Check("the master", master, ("spark", "master"))
        yield Check("the release of PySpark", partial(check_release, pipeline))
        yield Check("the folders", partial(check_folders, pipeline))
    for part in (*pipeline.sources, *pipeline.sinks):
        if isinstance(part, (TableSource, TableSink)):
            ask = partial(_database, pipeline, part, columns, patience)
            yield Check(f"the database of {part.name}", ask, pipeline.declared(part, "database"))
        elif isinstance(part, ChangesSource):
            ask = partial(_changes, pipeline, part, patience)
            yield Check(f"the database of {part.name}", ask, pipeline.declared(part, "database"))
        elif isinstance(part, TopicSource) and "schema.registry.url" in part.options:
            ask = partial(check_registry_of, pipeline, part, patience)
            place = pipeline.declared(part, "schema_registry", "options")
            yield Check(f"the schema registry of {part.name}", ask, place)


def _database(
    pipeline: Pipeline, part: TableSource | TableSink, columns: Columns, patience: float
) -> Findings:
    from moldau.spark.pipeline.preflight.databases import check_database  # and SQLAlchemy

    return check_database(pipeline, part, columns, patience)


def _changes(pipeline: Pipeline, source: ChangesSource, patience: float) -> Findings:
    from moldau.spark.pipeline.preflight.changes import check_changes

    return check_changes(pipeline, source, known_slots(pipeline), patience)


def side_by_side(checks: Sequence[Check], patience: float, pipeline: Pipeline) -> Findings:
    """In threads that nobody waits for in the end: a driver of a database may know no timeout."""
    done: dict[int, Findings] = {}

    def run(number: int) -> None:
        done[number] = _run(checks[number])

    threads = [
        Thread(target=run, args=(number,), name=f"preflight: {check.name}", daemon=True)
        for number, check in enumerate(checks)
    ]
    end = time.monotonic() + patience
    for thread in threads:
        thread.start()
    found = Findings()
    for number, (thread, check) in enumerate(zip(threads, checks, strict=True)):
        thread.join(max(0.0, end - time.monotonic()))
        if number in done:
            found.add(done[number])
        else:
            message = f"{check.name}: no answer within {patience:g} s"
            found.problems.append(pipeline.problem(check.place, message, kind=check.kind))
    return found


def _run(check: Check) -> Findings:
    try:
        return check.run()
    except Exception as error:
        # A check that fails says nothing of the pipeline.
        said = f"{type(error).__name__}: {error}".strip().split("\n", 1)[0][:_LONGEST]
        name = check.name[:1].upper() + check.name[1:]
        return Findings(notes=[f"{name} was not looked at: {said}"])

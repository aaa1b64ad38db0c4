"""``moldau pipeline``: init, templates, validate, test, run; others have modules of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.exit_codes import CommandError, ExitCode, UsageError
from moldau.cli.options import Json, group_app
from moldau.cli.output import (
    note,
    print_json,
    print_json_line,
    print_line,
    print_table,
    tell,
    warn,
)
from moldau.cli.pipeline_files import EXIT_CODES, File, Parameters, given_parameters, load, told
from moldau.cli.pipeline_pictures import graph, report
from moldau.cli.pipeline_runs import list_runs, restart, status, stop
from moldau.cli.pipeline_supervision import Supervisor, supervised
from moldau.cli.wording import counted
from moldau.extras import how_to_install

if TYPE_CHECKING:
    from moldau.spark.pipeline.preflight.found import Columns, Findings
    from moldau.spark.pipeline.spec import Pipeline

app = group_app("Pipelines on Spark, declared in a file.")

Patience = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.1,
        metavar="SECONDS",
        help="How long to wait for brokers, databases and registries before Spark starts.",
    ),
]
PATIENCE = 5.0


@app.command()
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="NAME.toml is written.")],
    template: Annotated[
        str, typer.Option("--template", "-t", help="A ready-made pipeline to begin with.")
    ] = "rollup",
) -> None:
    """Write a pipeline's file, to be changed as you need it."""
    from moldau.spark.pipeline.load import ready_made
    from moldau.spark.pipeline.problems import did_you_mean

    known = ready_made()
    if template not in known:
        raise UsageError(f"There is no template {template}: {did_you_mean(template, known)}")
    path = Path(name if name.endswith(".toml") else f"{name}.toml")
    text = known[template].replace(f'name = "{template}"', f'name = "{path.stem}"', 1)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise CommandError(f"{path} is there already; remove it or choose another name") from None
    print_line(str(path))
    note(f"Change it as you need it, then `moldau pipeline run {path}`.")


@app.command()
def validate(
    file: File,
    parameter: Parameters = [],  # noqa: B006 - typer copies it
    connect: Annotated[
        bool,
        typer.Option(
            "--connect",
            help="Also ask brokers, databases and registries, as `run` does before Spark starts.",
        ),
    ] = False,
    timeout: Patience = PATIENCE,
) -> None:
    """Check a pipeline's file; Spark is not needed for it."""
    from moldau.spark.pipeline.preflight.tables import check_release
    from moldau.spark.pipeline.problems import PipelineError
    from moldau.spark.pipeline.spec import QuarantineStep

    pipeline = load(file, parameter)
    columns = _check_sql(pipeline)
    if connect:
        _need_extra(pipeline)
        try:
            _preflight(pipeline, timeout, columns)
        except PipelineError as error:
            raise told(error) from None
    elif not pipeline.remote:
        # It may run elsewhere, with another release.
        for one in check_release(pipeline).problems:
            warn(f"{pipeline.file}:{one.line}: {one.message}")
    parts = (
        counted(len(pipeline.sources), "source"),
        counted(sum(not isinstance(one, QuarantineStep) for one in pipeline.steps), "step"),
        counted(len(pipeline.sinks), "sink"),
    )
    print_line(f"{pipeline.file}: pipeline {pipeline.name} is fine: {', '.join(parts)}")


@app.command()
def templates(json: Json = False) -> None:
    """Ready-made pipelines: `run` takes their names, `init --template` copies them."""
    from moldau.spark.pipeline.load import load_pipeline, ready_made

    found = [(name, load_pipeline(name).description) for name in ready_made()]
    if json:
        print_json([{"name": name, "description": text} for name, text in found])
        return
    print_table(["NAME", "WHAT IT DOES"], found)


@app.command()
def run(
    file: File,
    parameter: Parameters = [],  # noqa: B006
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="Where it runs: local[*], spark://…, k8s://…, sc://…; the file's if not given.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Process what is there now, then end.")
    ] = False,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Only records from this time on, and then end."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Where --from ends.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON for each batch.")] = False,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", help="Where Prometheus finds metrics."),
    ] = None,
    timings: Annotated[
        bool, typer.Option("--timings", help="Say in the end where the time went.")
    ] = False,
    timeout: Patience = PATIENCE,
) -> None:
    """Run a pipeline until Ctrl-C or SIGTERM, or until its end."""
    from moldau.cli.pipeline_backfill import narrow, parse_range, prepare
    from moldau.spark.pipeline.failures import PipelineFailedError
    from moldau.spark.pipeline.problems import PipelineError
    from moldau.spark.pipeline.runs.claim import AlreadyRunningError, refuse_second
    from moldau.spark.pipeline.runs.lock import handed_over
    from moldau.spark.pipeline.timings import Timings

    spent = Timings()
    pipeline = _adapted(load(file, parameter), master, metrics)
    _need_extra(pipeline)
    wanted = parse_range(begin, until)
    pipeline = prepare(pipeline, wanted, metrics)
    columns = _check_sql(pipeline, running=True)
    spent.mark("reading the file")
    log: Path | None = None
    found: Findings | None = None

    def attempt(supervisor: Supervisor) -> int | None:
        nonlocal log
        learned = found or _preflight(pipeline, timeout, columns)
        spent.mark("asking brokers and others")
        from moldau.cli.pipeline_view import json_view, live_view
        from moldau.spark.pipeline.command import (
            JavaNotFoundError,
            ServerNotFoundError,
            run_command,
        )
        from moldau.spark.pipeline.preflight.checkpoints import remember_owner
        from moldau.spark.pipeline.progress import Progress

        spent.mark("importing PySpark")
        remember_owner(pipeline, learned)
        with json_view(pipeline, print_json_line) if json else live_view(pipeline) as shown:
            log = shown.log

            def report(progress: Progress) -> None:
                supervisor.report(progress)
                shown.report(progress)

            def told_state(state: str) -> None:
                supervisor.tell(state)
                shown.tell(state)

            try:
                ranged = narrow(pipeline, wanted)
                return run_command(ranged, report, once=once, tell=told_state, timings=spent)
            except (JavaNotFoundError, ServerNotFoundError) as error:
                raise CommandError(str(error)) from None

    try:
        refuse_second(pipeline)
        if not handed_over():
            # Before anything is written: a pipeline that has never run leaves nothing behind.
            found = _preflight(pipeline, timeout, columns)
        number = supervised(pipeline, attempt)
    except AlreadyRunningError as error:
        raise CommandError(str(error)) from None
    except PipelineError as error:
        raise told(error) from None
    except PipelineFailedError as error:
        said = str(error).rstrip(".")
        code = EXIT_CODES.get(error.kind, ExitCode.FAILURE)
        raise CommandError(f"{said}. (What Spark said is in {log}.)", code) from error
    if timings:
        tell("\n".join(spent.lines()))
    if number is not None:
        raise typer.Exit(128 + number)


@app.command("test")
def samples_command(
    file: File,
    parameter: Parameters = [],  # noqa: B006
    case: Annotated[
        list[str], typer.Option("--case", metavar="NAME", help="Only this case, or these.")
    ] = [],  # noqa: B006
    tests: Annotated[
        Path | None,
        typer.Option("--tests", metavar="FILE", help="Instead of the .test.toml beside FILE."),
    ] = None,
    json: Json = False,
) -> None:
    """Run a pipeline's steps on sample rows, without brokers, and compare what comes out."""
    from moldau.spark.pipeline.problems import PipelineError

    pipeline = load(file, parameter)
    _need_extra(pipeline)
    _check_sql(pipeline, running=True)
    from moldau.cli.pipeline_samples import find_cases
    from moldau.cli.pipeline_samples import run as run_samples

    try:
        cases = find_cases(pipeline, tests, case)
    except PipelineError as error:
        raise told(error) from None
    if not run_samples(pipeline, given_parameters(parameter), cases, json=json):
        raise typer.Exit(ExitCode.FAILURE)


app.command("status")(status)
app.command("list")(list_runs)
app.command("stop")(stop)
app.command("restart")(restart)
app.command("graph")(graph)
app.command("report")(report)


def _adapted(pipeline: Pipeline, master: str | None, metrics: str | None) -> Pipeline:
    """With what the command line says instead of the file."""
    from dataclasses import replace

    from moldau.spark.pipeline.masters import master_problem
    from moldau.spark.pipeline.parse_running import metrics_problem

    if master is not None:
        pipeline = replace(pipeline, master=master)
    if metrics is not None:
        pipeline = replace(pipeline, metrics=metrics)
    for problem in (master_problem(pipeline), metrics_problem(pipeline.metrics)):
        if problem is not None:
            raise CommandError(problem[:1].upper() + problem[1:])
    return pipeline


def _check_sql(pipeline: Pipeline, *, running: bool = False) -> Columns:
    """Columns of sources and steps, where all of them are known.

    What sqlglot cannot read is wrong as a rule, but Spark is the one to say so: it gets its chance.
    """
    from moldau.spark.pipeline.problems import PipelineError

    try:
        from moldau.spark.pipeline.sql.check import check_sql
    except ModuleNotFoundError as error:
        warn(f"SQL was not checked, which needs {error.name}: {how_to_install('spark')}")
        return {}
    found = check_sql(pipeline)
    if found.problems or (found.unread and not running):
        raise told(PipelineError(pipeline.file, [*found.problems, *found.unread]))
    for one in found.unread:
        warn(f"{pipeline.file}:{one.line}: {one.message} (Spark is asked nevertheless)")
    return {name: found.columns(name) for name in found.frames}


def _preflight(pipeline: Pipeline, patience: float, columns: Columns) -> Findings:
    """What a pipeline needs around it, before Spark starts, which takes seconds."""
    from moldau.spark.pipeline.preflight.everything import preflight
    from moldau.spark.pipeline.problems import PipelineError

    found = preflight(pipeline, patience, columns)
    for one in found.notes:
        warn(one)
    if found.problems:
        raise PipelineError(pipeline.file, found.problems)
    return found


def _need_extra(pipeline: Pipeline) -> None:
    from importlib.util import find_spec

    for module in ("pyspark", "pyarrow", "pandas", "fastavro", "sqlalchemy", "sqlglot"):
        if find_spec(module) is None:
            raise CommandError(f"Pipelines need {module}: {how_to_install('spark')}")
    from moldau.spark.pipeline.problems import PipelineError

    problems = []
    for part in pipeline.database_parts:
        if (problem := _driver_problem(part.database)) is not None:
            kind = "sink" if part in pipeline.sinks else "source"
            place = pipeline.declared(part, "database")
            problems.append(pipeline.problem(place, f"{kind} {part.name}: {problem}"))
    if problems:
        raise told(PipelineError(pipeline.file, problems))


def _driver_problem(url: str) -> str | None:
    """Why SQLAlchemy cannot connect anywhere by this address; None if it can."""
    import sqlalchemy

    try:
        sqlalchemy.create_engine(url).dispose()
    except ModuleNotFoundError as error:
        install = f": {how_to_install('postgresql')}, with postgresql+psycopg://…"
        hint = install if url.startswith("postgres") else ""
        return f"a database at {url.partition(':')[0]}: needs the Python module {error.name}{hint}"
    except sqlalchemy.exc.NoSuchModuleError:
        return f"SQLAlchemy knows no database {url.partition(':')[0]}:"
    except (sqlalchemy.exc.ArgumentError, ValueError):
        # What they say may have the password in it, as a port that is no number.
        return (
            "this is no address of a database, such as postgresql+psycopg://user@host/name: signs "
            "like @ and / in passwords are written %40 and %2F"
        )
    return None

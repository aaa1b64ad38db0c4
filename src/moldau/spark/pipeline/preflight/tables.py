"""Whether the installed Spark can read and write what is named; folders, and who wrote them."""

from __future__ import annotations

from moldau.spark.changes.options import release_problem as changes_release_problem
from moldau.spark.pipeline.checkpoint import folder_of, read_queries
from moldau.spark.pipeline.paths import checkpoint_directory, local_directory
from moldau.spark.pipeline.preflight.found import Findings
from moldau.spark.pipeline.spec import ChangesSource, LakeSink, LakeSource, ParquetSink, Pipeline
from moldau.spark.pipeline.table_formats import (
    FORMATS,
    catalog_of,
    lake_parts,
    pyspark_version,
    release_problem,
)

SPARK_METADATA = "_spark_metadata"


def check_release(pipeline: Pipeline) -> Findings:
    """What the installed PySpark is too old or too new for.

    One complaint for each format: what to install is the same for all its tables.
    """
    found = Findings()
    for source in pipeline.sources:
        problem = changes_release_problem(pyspark_version())
        if isinstance(source, ChangesSource) and problem is not None:
            place = pipeline.declared(source, "changes")
            found.problems.append(pipeline.problem(place, f"source {source.name}: {problem}"))
    told: set[str] = set()
    for part in lake_parts(pipeline):
        if part.format not in told:
            told.add(part.format)
            problem = release_problem(pipeline.config, FORMATS[part.format], pyspark_version())
            if problem is not None:
                place = pipeline.declared(part, part.format)
                found.problems.append(pipeline.problem(place, problem))
    found.add(_check_warehouses(pipeline))
    return found


def check_folders(pipeline: Pipeline) -> Findings:
    """Of those that this machine sees."""
    found = Findings()
    for sink in pipeline.sinks:
        directory = local_directory(sink.path) if isinstance(sink, ParquetSink) else None
        if directory is None or not isinstance(sink, ParquetSink):
            continue
        if (directory / SPARK_METADATA).is_dir():
            place = pipeline.declared(sink, "parquet")
            found.problems.append(pipeline.problem(place, metadata_problem(sink.path)))
        elif _begins_anew(pipeline, sink) and any(directory.rglob("*.parquet")):
            found.notes.append(
                f"Folder {sink.path} has files already, and sink {sink.name} begins anew: its rows "
                "are added to theirs"
            )
    return found


def metadata_problem(path: str) -> str:
    return (
        f"{path} was written by Spark's own file sink: Spark reads only the files that its list "
        f"{SPARK_METADATA} names, and would pass over new ones. Write to another folder; or remove "
        f"{path}/{SPARK_METADATA}, and rows of attempts that failed, which pyarrow and DuckDB find "
        "there now, are there for Spark as well"
    )


def _begins_anew(pipeline: Pipeline, sink: ParquetSink) -> bool:
    checkpoint = checkpoint_directory(pipeline)
    if checkpoint is None:
        return False
    try:
        folder = folder_of(read_queries(checkpoint), sink.name)
    except ValueError:
        return False  # which is another check's business
    return not (checkpoint / folder).exists()


def _check_warehouses(pipeline: Pipeline) -> Findings:
    """A catalog is declared once: by a warehouse, or in the settings."""
    found = Findings()
    known: dict[str, str | None] = {}
    for part in lake_parts(pipeline):
        if part.format != "iceberg":
            continue
        catalog = catalog_of(part)
        if (problem := _catalog_problem(pipeline, part, catalog, known)) is not None:
            place = pipeline.declared(part, "warehouse", "iceberg")
            found.problems.append(pipeline.problem(place, problem))
        known.setdefault(catalog, part.warehouse)
    return found


def _catalog_problem(
    pipeline: Pipeline,
    part: LakeSource | LakeSink,
    catalog: str,
    known: dict[str, str | None],
) -> str | None:
    setting = f"spark.sql.catalog.{catalog}"
    declared = setting in pipeline.config
    if part.warehouse is None:
        others = [one.warehouse for one in lake_parts(pipeline) if catalog_of(one) == catalog]
        if declared or any(others):
            return None
        return (
            f'there is no catalog {catalog}: add warehouse = "FOLDER", or declare it in [spark] '
            f'config with "{setting}"'
        )
    if declared:
        return f"catalog {catalog} is declared twice: in [spark] config, and by warehouse"
    other = known.get(catalog, part.warehouse)
    if other not in (None, part.warehouse):
        return f"catalog {catalog} has two warehouses, {other} and {part.warehouse}: keep one"
    return None

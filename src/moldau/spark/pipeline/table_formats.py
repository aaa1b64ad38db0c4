"""Delta Lake and Apache Iceberg: which releases of Spark they are for, and what a session needs.

The versions stand here and nowhere else; the Makefile reads them, too. Nothing imports Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from moldau.spark.pipeline.spec import LakeFormat, LakeSink, LakeSource, Pipeline

DELTA: Final = "4.4.0"
ICEBERG: Final = "1.12.0"

PACKAGES: Final = "spark.jars.packages"
EXTENSIONS: Final = "spark.sql.extensions"
_JARS: Final = ("spark.jars", "spark.driver.extraClassPath")


@dataclass(frozen=True)
class TableFormat:
    title: str
    package: str
    """From Maven; its name has the release of Spark in it."""
    version: str
    releases: tuple[str, ...]
    """Of Spark."""
    extension: str
    settings: Mapping[str, str]
    local: Mapping[str, str]
    """Settings for a Spark of one machine only."""

    @property
    def jar(self) -> str:
        """What the names of its jars begin with."""
        return self.package.partition(":")[2].partition("{")[0]

    def coordinates(self, release: str) -> str:
        return f"{self.package.format(release)}:{self.version}"


FORMATS: Final[Mapping[LakeFormat, TableFormat]] = {
    "delta": TableFormat(
        title="Delta Lake",
        package="io.delta:delta-spark_{}_2.13",
        version=DELTA,
        releases=("4.1", "4.2"),
        extension="io.delta.sql.DeltaSparkSessionExtension",
        settings={
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        },
        # Its 50 tasks for each look at the log take longer than all the rest of a small batch.
        local={"spark.databricks.delta.snapshotPartitions": "2"},
    ),
    "iceberg": TableFormat(
        title="Apache Iceberg",
        package="org.apache.iceberg:iceberg-spark-runtime-{}_2.13",
        version=ICEBERG,
        releases=("4.1",),
        extension="org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        settings={},
        local={},
    ),
}
_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"


def lake_parts(pipeline: Pipeline) -> Iterator[LakeSource | LakeSink]:
    for part in (*pipeline.sources, *pipeline.sinks):
        if isinstance(part, (LakeSource, LakeSink)):
            yield part


def catalog_of(part: LakeSource | LakeSink) -> str:
    """The first word of an Iceberg table's name."""
    return part.table.partition(".")[0]


def session_config(pipeline: Pipeline, release: str | None = None) -> dict[str, str]:
    """The pipeline's own settings, and what its tables need beside them: jars, catalogs.

    A Spark Connect server has to have them itself. ``release`` is that of Spark.
    """
    config = dict(pipeline.config)
    if pipeline.remote:
        return config
    release = release or spark_release()
    for part in lake_parts(pipeline):
        kind = FORMATS[part.format]
        if release in kind.releases and not has_jars(config, kind):
            _append(config, PACKAGES, kind.coordinates(release))
        _append(config, EXTENSIONS, kind.extension)
        more = kind.local if pipeline.master.startswith("local") else {}
        for name, value in {**kind.settings, **more}.items():
            config.setdefault(name, value)
        if part.warehouse is not None:
            catalog = f"spark.sql.catalog.{catalog_of(part)}"
            config.setdefault(catalog, _CATALOG)
            config.setdefault(f"{catalog}.type", "hadoop")
            config.setdefault(f"{catalog}.warehouse", part.warehouse)
            # Each streaming query has a cache of its own, which does not hear of the others.
            config.setdefault(f"{catalog}.cache-enabled", "false")
    return config


def has_jars(config: Mapping[str, str], kind: TableFormat) -> bool:
    """Whether somebody has seen to them: in the settings, or among the jars of Spark itself."""
    if kind.package.partition("{")[0] in config.get(PACKAGES, ""):
        return True
    if any(kind.jar in config.get(name, "") for name in _JARS):
        return True
    found = find_spec("pyspark")
    places = found.submodule_search_locations if found is not None else None
    return any(any(Path(place, "jars").glob(f"{kind.jar}*.jar")) for place in places or ())


def pyspark_version() -> str:
    """Of the one that is installed; empty if there is none."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return ""


def spark_release() -> str:
    """Such as 4.1."""
    return ".".join(pyspark_version().split(".")[:2])


def release_problem(config: Mapping[str, str], kind: TableFormat, installed: str) -> str | None:
    """Why a table format cannot be used with the PySpark that is there, and what to install."""
    release = ".".join(installed.split(".")[:2])
    if release in kind.releases or has_jars(config, kind):
        return None
    newest = kind.releases[-1]
    return (
        f"{kind.title} {kind.version} is for Spark {' and '.join(kind.releases)}, and PySpark "
        f"{installed or 'is not'} is installed: pip install 'pyspark=={newest}.*'; or, if there "
        f'is a later one by now, name it in [spark] config, such as "{PACKAGES}" = '
        f'"{kind.package.format(release or newest)}:VERSION"'
    )


def _append(config: dict[str, str], name: str, value: str) -> None:
    """To a list with commas, unless it is there."""
    given = [one.strip() for one in config.get(name, "").split(",") if one.strip()]
    if value not in given:
        config[name] = ",".join((*given, value))

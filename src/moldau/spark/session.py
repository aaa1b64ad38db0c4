"""A Spark session that can use the data source: Java found, workers with this very Python."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from moldau.spark.connect_server import ServerNotFoundError as ServerNotFoundError
from moldau.spark.connect_server import check_connect_server
from moldau.spark.java import JavaNotFoundError as JavaNotFoundError
from moldau.spark.java import find_java
from moldau.spark.loopback import loopback_ui

logger: Final = logging.getLogger("moldau.spark")

_DEFAULTS: Final = {
    # Spark's own is INT96, which other readers take for times without a zone, from 1677 to 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def spark_session(
    app_name: str, *, master: str = "local[*]", config: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with ``format("moldau")``; the workers run this Python, with all that it has."""
    builder = SparkSession.builder.appName(app_name)
    if master.startswith("sc://"):
        check_connect_server(master)
        builder = builder.remote(master)
    else:
        java = find_java()
        if java.remark is not None:
            logger.warning("%s", java.remark)
        os.environ["JAVA_HOME"] = str(java.home)
        os.environ.update(python_of(master, os.environ))
        variables, more = loopback_ui(master, config or {}, os.environ)
        os.environ.update(variables)
        builder = builder.master(master).config(map={**_DEFAULTS, **more})
    for name, value in (config or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def python_of(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Which Python the workers run, if nobody has said so: this one.

    Pods have another file system, in which it is ``python3`` of the image; so it has to be here.
    """
    in_pods = master.startswith("k8s://")
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    found = {
        name: environment.get(name, "python3" if in_pods else sys.executable) for name in names
    }
    if in_pods:
        here = str(Path(sys.executable).parent)
        found["PATH"] = os.pathsep.join((here, environment.get("PATH", "")))
    return found

"""A file system of Hadoop's that is not this machine's own: names of it mean nothing here."""

from __future__ import annotations

import getpass
import uuid
from pathlib import Path

from pyspark.sql import SparkSession


def session_on(spark: SparkSession, place: Path) -> tuple[SparkSession, Path]:
    """A session whose paths without a scheme are there; and the folder of relative ones."""
    name = f"cluster-{uuid.uuid4().hex[:8]}"
    home = place / getpass.getuser()
    home.mkdir(parents=True)
    session = spark.newSession()
    session.conf.set("fs.defaultFS", f"viewfs://{name}/")
    session.conf.set(f"fs.viewfs.mounttable.{name}.link./user", place.as_uri())
    return session, home

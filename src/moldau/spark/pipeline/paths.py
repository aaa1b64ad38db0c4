"""Which paths are of this machine, as Spark reads them: by scheme, or else by its settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from moldau.spark.pipeline.spec import Pipeline

_DEFAULT: Final = ("fs.defaultFS", "fs.default.name")


def local_directory(path: str) -> Path | None:
    """None if it is in a store of which this machine sees no files."""
    scheme, rest = _split(path)
    if scheme is None:
        return Path(path)
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None


def checkpoint_directory(pipeline: Pipeline) -> Path | None:
    """None if this machine sees no files of it: a server's, or those of another store.

    Before Spark starts, that is what its settings say of paths without a scheme.
    """
    if pipeline.remote:
        return None
    default = _split(default_file_system(pipeline.config))[0]
    if _split(pipeline.checkpoint)[0] is None and default not in (None, "file"):
        return None
    return local_directory(pipeline.checkpoint)


def default_file_system(config: Mapping[str, str]) -> str:
    """Where paths without a scheme are; empty if neither Spark's nor Hadoop's settings say so."""
    for name in _DEFAULT:
        if (found := config.get(f"spark.hadoop.{name}")) is not None:
            return found
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        with suppress(KeyError, OSError, ET.ParseError):
            settings = ET.parse(Path(os.environ[variable], "core-site.xml"))  # noqa: S314 - ours
            for one in settings.iter("property"):
                if one.findtext("name", "").strip() in _DEFAULT:
                    return one.findtext("value", "").strip()
    return ""


def _split(path: str) -> tuple[str | None, str]:
    """``file:/x`` and ``file:///x`` are the same, as for Hadoop; a colon may be in a name, too."""
    scheme, colon, rest = path.partition(":")
    return (scheme.lower(), rest) if colon and "/" not in scheme else (None, path)

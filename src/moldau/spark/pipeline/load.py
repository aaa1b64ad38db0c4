"""Finding a pipeline: a file, or one that comes with Moldau."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.problems import PipelineError, Problem, did_you_mean
from moldau.spark.pipeline.spec import Pipeline


def ready_made() -> dict[str, str]:
    """The texts of the pipelines in the package, by name."""
    folder = files("moldau.spark.pipeline").joinpath("ready")
    found = {
        file.name.removesuffix(".toml"): file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    }
    return dict(sorted(found.items()))


def load_pipeline(file_or_name: str, given: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline of a file, or the ready-made one of this name."""
    text, file = read_pipeline(file_or_name)
    return parse_pipeline(text, file, given=given, environment=os.environ)


def read_pipeline(file_or_name: str) -> tuple[str, str]:
    """Text and file name."""
    path = Path(file_or_name)
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8"), file_or_name
        except UnicodeDecodeError:
            raise PipelineError(file_or_name, [Problem(1, "this is no text in UTF-8")]) from None
    known = ready_made()
    if file_or_name in known:
        return known[file_or_name], f"{file_or_name}.toml"
    hint = did_you_mean(file_or_name, known)
    raise FileNotFoundError(
        f"there is no file {file_or_name}, and no ready-made pipeline of that name: {hint}"
    )

"""Functions of Python steps: those of a run are found once, whatever happens to their files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from moldau.spark.pipeline.spec import Pipeline


class StepFunctions:
    """Steps are applied to each batch: all of a run are to be those that it began with."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._folder = Path(pipeline.file).parent
        self._found: dict[str, Callable[..., Any]] = {}

    def find(self, reference: str) -> Callable[..., Any]:
        """``module:function``, or ``file.py:function`` with the file beside the pipeline's."""
        if reference not in self._found:
            place, _, name = reference.rpartition(":")
            module = _from_file(self._folder / place) if place.endswith(".py") else None
            self._found[reference] = getattr(module or import_module(place), name)
        return self._found[reference]


def _from_file(file: Path) -> Any:
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Spark's workers get functions of the module by value: they have no such file.
    sys.modules[spec.name] = module
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    spec.loader.exec_module(module)
    return module

"""Drives a target with atheris, in a process of its own: ``python -m tests.fuzz.fuzzing TARGET …``.

Atheris follows bytecode, so that the product must run as plain Python (``MOLDAU_PURE_PYTHON=1``).
The arguments after the target's name and the folder for findings are libFuzzer's.
"""

from __future__ import annotations

import gc
import hashlib
import shlex
import sys
import traceback
from pathlib import Path
from types import FunctionType

import atheris
from tests.fuzz.targets import make_target

from moldau.records.native import is_compiled


def main() -> None:
    name, findings, *options = sys.argv[1:]
    if is_compiled():
        raise SystemExit("set MOLDAU_PURE_PYTHON=1: atheris sees nothing in compiled modules")
    target = make_target(name)
    instrument("moldau")

    def test_one_input(data: bytes) -> None:
        try:
            target.run(data)
        except BaseException as error:
            _keep(Path(findings), target.blamed or data, error)
            raise

    # To merge, libFuzzer starts itself again, by a shell.
    itself = shlex.join([sys.executable, "-m", "tests.fuzz.fuzzing", name, findings])
    atheris.Setup([itself, *options], test_one_input)
    atheris.Fuzz()


def instrument(package: str) -> None:
    """Count what every function of a package does that is loaded by now."""
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and f"{function.__module__}.".startswith(
            f"{package}."
        ):
            atheris.instrument_func(function)


def _keep(folder: Path, data: bytes, error: BaseException) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    path.with_suffix(".txt").write_text("".join(traceback.format_exception(error)))


if __name__ == "__main__":
    main()

"""Compiles what records and requests pass through with mypyc; pyproject.toml says all else.

The compiled modules are ordinary Python and run without compilation too, more slowly.
``MOLDAU_COMPILE`` decides what happens at installation:

- ``auto`` (or unset): compile if there is a C compiler; if it fails, warn and go on without.
- ``1``: compile or fail.
- ``0``: do not compile.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import warnings
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

COMPILED_MODULES = [
    "src/moldau/broker/broker.py",
    "src/moldau/broker/fetch_reading.py",
    "src/moldau/broker/fetch_session.py",
    "src/moldau/broker/fetch_sessions.py",
    "src/moldau/broker/follower_session.py",
    "src/moldau/broker/handlers/fetch.py",
    "src/moldau/broker/handlers/produce.py",
    "src/moldau/broker/large_fetch.py",
    "src/moldau/broker/request.py",
    "src/moldau/broker/router.py",
    "src/moldau/broker/routes.py",
    "src/moldau/broker/traffic.py",
    "src/moldau/client/producer/accumulator.py",
    "src/moldau/client/producer/batch.py",
    "src/moldau/client/producer/murmur.py",
    "src/moldau/client/producer/queue.py",
    "src/moldau/log/cleaner/cleaned_segment.py",
    "src/moldau/log/partition/appending.py",
    "src/moldau/log/partition/budget.py",
    "src/moldau/log/partition/health.py",
    "src/moldau/log/partition/log.py",
    "src/moldau/log/partition/offsets.py",
    "src/moldau/log/partition/producer_state.py",
    "src/moldau/log/partition/results.py",
    "src/moldau/log/partition/segments.py",
    "src/moldau/log/partition/tail.py",
    "src/moldau/log/partition/validation.py",
    "src/moldau/log/segment/batches.py",
    "src/moldau/log/segment/index_file.py",
    "src/moldau/log/segment/offset_index.py",
    "src/moldau/log/segment/segment.py",
    "src/moldau/log/segment/time_index.py",
    "src/moldau/machine/outgoing.py",
    "src/moldau/machine/real/clock.py",
    "src/moldau/machine/real/disk.py",
    "src/moldau/machine/real/sockets/transport.py",
    "src/moldau/net/connection.py",
    "src/moldau/net/frames.py",
    "src/moldau/net/memory_pool.py",
    "src/moldau/records/builder.py",
    "src/moldau/records/compaction.py",
    "src/moldau/records/consumer_record.py",
    "src/moldau/records/reader.py",
    "src/moldau/records/record.py",
    "src/moldau/records/scan.py",
    "src/moldau/records/varint.py",
    "src/moldau/records/walk.py",
    "src/moldau/records/zstd_frames.py",
    "src/moldau/replication/isr.py",
    "src/moldau/replication/parked.py",
    "src/moldau/replication/partition.py",
    "src/moldau/replication/ports.py",
    "src/moldau/replication/replica.py",
    "src/moldau/wire/fetch_layout.py",
    "src/moldau/wire/fetch_request.py",
    "src/moldau/wire/fetch_response.py",
    "src/moldau/wire/headers.py",
    "src/moldau/wire/primitives.py",
    "src/moldau/wire/produce.py",
    "src/moldau/wire/tags.py",
]

GROUP = "moldau"
"""mypyc puts the code of all modules into one library, ``moldau__mypyc``, beside the package."""

BUILD_COMMANDS = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}

COMPILE = os.environ.get("MOLDAU_COMPILE") or "auto"


def give_up(reason: object) -> None:
    """Goes on without compiled modules, unless they were demanded."""
    if COMPILE == "1":
        raise SystemExit(f"MOLDAU_COMPILE=1, but the modules do not compile: {reason}")
    warnings.warn(
        f"moldau is installed without compiled modules and will be slower: {reason}", stacklevel=2
    )


def extensions() -> list[Extension]:
    if COMPILE not in ("0", "1", "auto"):
        raise SystemExit(f"MOLDAU_COMPILE is 0, 1 or auto, not {COMPILE!r}")
    # Installers also start this file for metadata alone; translating to C takes seconds each time.
    if COMPILE == "0" or not BUILD_COMMANDS.intersection(sys.argv):
        return []
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if os.name == "posix" and shutil.which(compiler) is None:
        give_up(f"there is no C compiler {compiler}")
        return []
    try:
        from mypyc.build import mypycify

        # `make check` is strict. Here the dependencies may not be installed yet, what they return
        # is then of no known type, and modules that are not compiled may not fit together.
        options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
        result: list[Extension] = mypycify(
            options + COMPILED_MODULES, opt_level="3", debug_level="0", group_name=GROUP
        )
    except (Exception, SystemExit) as error:  # mypyc exits when it finds an error
        give_up(f"mypyc fails: {error!r}")
        return []
    return result


class BuildExtensions(build_ext):
    """All extension modules or none: one alone would be found first and then miss the library."""

    def build_extensions(self) -> None:
        try:
            super().build_extensions()
        except Exception as error:  # each version of setuptools has its own idea of a compile error
            for output in self.get_outputs():
                Path(output).unlink(missing_ok=True)
            self.extensions = []
            give_up(error)


class BuildPython(build_py):
    """Removes modules compiled earlier from the source tree when it is installed without them."""

    def run(self) -> None:
        if self.editable_mode:
            suffix = sysconfig.get_config_var("EXT_SUFFIX")
            names = [Path(module).with_suffix(suffix) for module in COMPILED_MODULES]
            for name in [*names, Path("src", f"{GROUP}__mypyc{suffix}")]:
                name.unlink(missing_ok=True)
        super().run()


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildExtensions, "build_py": BuildPython},
)

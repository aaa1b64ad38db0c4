"""Compiles the per-record modules with mypyc when a C compiler is at hand.

``MOLDAU_COMPILE=1`` makes a missing compiler an error, ``MOLDAU_COMPILE=0`` never compiles; unset tries.
"""

from __future__ import annotations

import os
import shutil
import sysconfig

from setuptools import Extension, setup

COMPILED_MODULES: list[str] = [
]


def extensions() -> list[Extension]:
    choice = os.environ.get("MOLDAU_COMPILE", "auto")
    if choice == "0" or not COMPILED_MODULES:
        return []
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if choice != "1" and shutil.which(compiler) is None:
        return []
    from mypyc.build import mypycify

    extensions: list[Extension] = mypycify(COMPILED_MODULES, opt_level="3")
    return extensions


setup(ext_modules=extensions())

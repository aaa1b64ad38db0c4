"""mypyc's vocabulary for the modules it compiles, without a dependency on it at run time.

``setup.py`` compiles the per-record modules of this package. For mypyc an ``i64`` is a machine
word; for plain Python it is an ``int``. Both must compute the same, so nothing of this type may
leave 64 bits, whatever the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["i64", "is_compiled", "mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import i64, mypyc_attr
else:
    i64 = int

    def mypyc_attr(**_attributes):
        return lambda decorated: decorated


def is_compiled() -> bool:
    """Whether the per-record modules run as machine code in this process."""
    from moldau.records import reader

    return not reader.__file__.endswith(".py")

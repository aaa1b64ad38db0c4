"""mypyc's vocabulary for the modules it compiles, without a dependency on it at run time.

``setup.py`` compiles the per-record modules of this package. For mypyc an ``i64`` is a machine
word; for plain Python it is an ``int``. Both must compute the same, so nothing of this type may
leave 64 bits, whatever the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["i64", "is_compiled", "vec"]

if TYPE_CHECKING:
    from librt.vecs import vec
    from mypy_extensions import i64
else:
    from array import array

    i64 = int

    class vec:  # noqa: N801 (the name in librt)
        """Of machine words only; mypyc's own, in ``librt``, is what compiled modules use."""

        def __class_getitem__(cls, _item):
            return lambda items: array("q", items)


def is_compiled() -> bool:
    """Returns whether the per-record modules run as machine code in this process."""
    from moldau.records import reader

    return not reader.__file__.endswith(".py")

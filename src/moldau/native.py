"""What is said to mypyc about a class, without a dependency on mypyc at run time; and what compiled
code cannot do by itself.

``setup.py`` lists the modules that are compiled. A class of theirs that others may extend in plain
Python, tests mostly, is marked with ``@mypyc_attr(allow_interpreted_subclasses=True)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["let_threads_in", "mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**_attributes):
        return lambda decorated: decorated


def let_threads_in() -> None:
    """Compiled code keeps all other threads waiting, also that of the event loop, until it calls
    something that is not compiled. This is not, and what takes milliseconds calls it now and then.
    """

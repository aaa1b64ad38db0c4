"""How to install what only some need. No index has the package yet, so it is done in a clone."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """``extra`` as in pyproject.toml, or several with commas."""
    return f"pip install '.[{extra}]' in a clone"

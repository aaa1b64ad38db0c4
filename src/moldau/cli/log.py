"""``moldau log``: look into log files."""

from __future__ import annotations

from moldau.cli.options import group_app

app = group_app("Look into log directories and segment files.")

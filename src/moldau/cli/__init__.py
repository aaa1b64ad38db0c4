"""The command line: ``main`` is where it starts, ``app`` is the tree of commands."""

from moldau.cli.main import main

__all__ = ["main"]

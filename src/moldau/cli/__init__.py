"""The command line. Commands are imported when they are used: see ``moldau.cli.app``."""

from moldau.cli.app import main

__all__ = ["main"]

"""The real machine."""

from moldau.machine.real.machine import real_machine, this_machine

__all__ = ["real_machine", "this_machine"]

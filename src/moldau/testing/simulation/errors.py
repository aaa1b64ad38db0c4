"""What ends in a simulation, and what stops one."""

from __future__ import annotations


class ProcessEnded(BaseException):
    """Raised into whatever a process still does after it was killed.

    It is not an ``Exception``: no handler of the program may take it for a failure to deal with.
    """


class SimulationError(Exception):
    """The simulation itself cannot go on."""


class SimulationStuckError(SimulationError):
    """Nothing is left that could happen, but something is still waited for."""


class SimulationTooLongError(SimulationError):
    """More virtual time has passed than the run was given."""

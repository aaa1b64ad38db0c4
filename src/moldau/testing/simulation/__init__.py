"""Programs in virtual time, on simulated machines, every life of them replayed from its seed.

What a test needs can be imported from here (docs/simulation.md shows how)::

    from moldau.testing.simulation import SimulatedBroker, Simulation

It is loaded when it is asked for: whoever needs a part of the simulation does not load a broker.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from moldau.testing.simulation.broker import SimulatedBroker as SimulatedBroker
    from moldau.testing.simulation.cluster import NotRightError as NotRightError
    from moldau.testing.simulation.cluster import SimulatedCluster as SimulatedCluster
    from moldau.testing.simulation.coordination import SimulatedEnsemble as SimulatedEnsemble
    from moldau.testing.simulation.errors import ProcessEnded as ProcessEnded
    from moldau.testing.simulation.errors import SimulationError as SimulationError
    from moldau.testing.simulation.node import Node as Node
    from moldau.testing.simulation.simulation import Simulation as Simulation
    from moldau.testing.simulation.timeline import tell as tell

_MODULES: Final = {
    "Node": "node",
    "NotRightError": "cluster",
    "ProcessEnded": "errors",
    "SimulatedBroker": "broker",
    "SimulatedCluster": "cluster",
    "SimulatedEnsemble": "coordination",
    "Simulation": "simulation",
    "SimulationError": "errors",
    "tell": "timeline",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)

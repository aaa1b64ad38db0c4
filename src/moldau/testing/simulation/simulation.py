"""A world in which programs run in virtual time: nodes, a network, and chance from one seed.

with Simulation(seed=7) as simulation:
    simulation.run(scenario(simulation))
"""

from __future__ import annotations

import gc
from collections.abc import Coroutine
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from moldau.testing.simulation.loop import SimulatedLoop
from moldau.testing.simulation.network import SimulatedNetwork
from moldau.testing.simulation.node import Node
from moldau.testing.simulation.recorder import Recorder

T = TypeVar("T")


class Simulation:
    """One world. Everything in it follows from the seed."""

    def __init__(self, seed: int, *, keep_events: bool = False) -> None:
        self.seed = seed
        self.loop = SimulatedLoop()  # type: ignore[abstract]  # a program that needs more must fail
        self.recorder = Recorder(self.loop.time, keep=keep_events)
        self.network = SimulatedNetwork(self.loop, self.new_random("network"), self.recorder)
        self.nodes: dict[str, Node] = {}

    def new_random(self, purpose: str) -> Random:
        """Returns chance for one purpose, independent of how much of it others use."""
        return Random(f"{self.seed} {purpose}")  # noqa: S311 - the point is to repeat it

    def node(self, name: str) -> Node:
        """Returns the node of this name, made if there is none."""
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(
                name, self.loop, self.network, self.recorder, self.new_random(f"node {name}")
            )
        return node

    def run(self, scenario: Coroutine[Any, Any, T]) -> T:
        """Let time pass until the scenario has ended."""
        return self.loop.run_until_complete(scenario)  # type: ignore[no-any-return]

    @property
    def time(self) -> float:
        """Virtual seconds since the beginning."""
        return self.loop.time()

    def close(self) -> None:
        """The end of the world."""
        self.recorder.close()
        for node in self.nodes.values():
            node.end()
        self.loop.close()
        for node in self.nodes.values():
            node.bury()

    def __enter__(self) -> Self:
        # A collection in the middle would close what nobody holds any more at a moment that has
        # nothing to do with the seed; and it is slow.
        self._collects = gc.isenabled()
        gc.disable()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        finally:
            if self._collects:
                gc.enable()
            # All that the world has left is young: nothing was collected while it lasted.
            gc.collect(0)

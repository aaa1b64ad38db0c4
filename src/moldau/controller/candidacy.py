"""Winning the controller's office, and giving it back: what is written for it, and what of that
nobody may know the fate of.
"""

from __future__ import annotations

from contextlib import suppress

from moldau.controller import writes
from moldau.controller.context import ControllerContext
from moldau.coordination import paths, znodes
from moldau.coordination.errors import (
    BadVersionError,
    ConnectionLostError,
    CoordinationError,
    NodeExistsError,
    NoNodeError,
)
from moldau.coordination.store import CoordinationStore, Create, Delete, SetData


async def win(store: CoordinationStore, broker_id: int, now_ms: int) -> ControllerContext | None:
    """Create /controller and raise the epoch, both or neither.

    None if somebody was faster, or if nobody knows what became of it: look again.
    """
    mine = znodes.encode_controller(broker_id, now_ms)
    try:
        with suppress(NodeExistsError):
            await store.create(paths.CONTROLLER_EPOCH, znodes.encode_controller_epoch(0))
        data, stat = await store.get(paths.CONTROLLER_EPOCH)
        epoch = znodes.decode_controller_epoch(data) + 1
        await store.multi(
            [
                Create(paths.CONTROLLER, mine, ephemeral=True),
                SetData(
                    paths.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch), stat.version
                ),
            ]
        )
    except (NodeExistsError, BadVersionError, ConnectionLostError):
        return None
    return ControllerContext(epoch, stat.version + 1)


async def resign(store: CoordinationStore) -> None:
    """Give back the node of an office that this session's broker does not hold: it was lost, or
    won, by a write of which nobody knew whether it was made. Look again.
    """
    with suppress(NoNodeError, ConnectionLostError):
        await store.delete(paths.CONTROLLER)


async def hand_back(store: CoordinationStore, context: ControllerContext) -> None:
    """Leave an office that could not be taken up to others, if it is still this broker's."""
    with suppress(CoordinationError):
        await store.multi([writes.fence(context), Delete(paths.CONTROLLER)])

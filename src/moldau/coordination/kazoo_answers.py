"""ZooKeeper's answers, as kazoo reads them, in the words of the coordination contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kazoo import exceptions as kazoo

from moldau.coordination.errors import (
    BadVersionError,
    ConnectionLostError,
    CoordinationError,
    EnsembleError,
    EphemeralParentError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)
from moldau.coordination.store import Create, EventType, Op, OpResult, SetData, Stat

EVENTS: Final = {
    "CREATED": EventType.CREATED,
    "DELETED": EventType.DELETED,
    "CHANGED": EventType.CHANGED,
    "CHILD": EventType.CHILDREN,
}
BROKEN: Final = (kazoo.ConnectionLoss, kazoo.ConnectionClosedError, kazoo.SessionExpiredError)
"""What a request hears when its connection goes."""

_NOT_TO_BLAME: Final = (kazoo.RolledBackError, kazoo.RuntimeInconsistency)
"""What a failed multi says of the operations before and after the one that failed."""


def lost(error: Exception) -> CoordinationError:
    if isinstance(error, kazoo.SessionExpiredError):
        return SessionExpiredError("the session is over")
    return ConnectionLostError(
        "the connection to ZooKeeper broke; whether the change was made is not known"
    )


def results(ops: Sequence[Op], answers: Sequence[Any]) -> list[OpResult]:
    for index, (op, answer) in enumerate(zip(ops, answers, strict=True)):
        if isinstance(answer, Exception) and not isinstance(answer, _NOT_TO_BLAME):
            error = _error(op, answer)
            error.index = index
            raise error
    return [_result(op, answer) for op, answer in zip(ops, answers, strict=True)]


def _result(op: Op, answer: Any) -> OpResult:
    match op:
        case Create():
            return str(answer)
        case SetData():
            return stat(answer)
        case _:
            return None


def _error(op: Op, answer: Exception) -> CoordinationError:
    match answer:
        case kazoo.NoNodeError():
            return NoNodeError(op.path)
        case kazoo.NodeExistsError():
            return NodeExistsError(op.path)
        case kazoo.BadVersionError():
            assert not isinstance(op, Create)
            return BadVersionError(op.path, op.version)
        case kazoo.NotEmptyError():
            return NotEmptyError(op.path)
        case kazoo.NoChildrenForEphemeralsError():
            return EphemeralParentError(op.path)
        case _:
            return EnsembleError(f"ZooKeeper refuses {op}: {answer!r}", path=op.path)


def stat(found: Any) -> Stat:
    return Stat(
        czxid=found.czxid,
        mzxid=found.mzxid,
        pzxid=found.pzxid,
        ctime=found.ctime,
        mtime=found.mtime,
        version=found.version,
        cversion=found.cversion,
        ephemeral_owner=found.ephemeralOwner,
        data_length=found.dataLength,
        num_children=found.numChildren,
    )

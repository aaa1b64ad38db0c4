"""A leader asks for other in-sync replicas: whether it may (KIP-497, KIP-841)."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.controller.elections import with_isr
from moldau.controller.link import LeaderAndIsr
from moldau.controller.requests import AlterPartition
from moldau.coordination.znodes import RECOVERED, RECOVERING
from moldau.errors import ErrorCode


def check_broker_epoch(live: Mapping[int, int], broker: int, broker_epoch: int) -> ErrorCode:
    """``live`` maps broker ids to their epochs. -1 stands for a caller that knows no epoch."""
    if broker not in live or broker_epoch not in (-1, live[broker]):
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


def decide(
    current: LeaderAndIsr | None,
    request: AlterPartition,
    broker: int,
    live: Mapping[int, int],
    controller_epoch: int,
) -> LeaderAndIsr | ErrorCode:
    """Returns the new state (``current`` itself if it is that already), or why not.

    A request from the future means that this controller is the one that is behind.
    """
    if current is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if (
        request.leader_epoch > current.leader_epoch
        or request.partition_epoch > current.partition_epoch
    ):
        return ErrorCode.NOT_CONTROLLER
    if request.leader_epoch < current.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker != current.leader:
        return ErrorCode.INVALID_REQUEST
    if (
        sorted(request.new_isr) == sorted(current.isr)
        and request.leader_recovery_state == current.leader_recovery_state
    ):
        # Asked twice: the first answer was lost. Must come before the check of the epoch.
        return current
    if request.partition_epoch < current.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    refusal = _refuse_isr(current, request, live)
    if refusal is not ErrorCode.NONE:
        return refusal
    return with_isr(current, request.new_isr, controller_epoch, request.leader_recovery_state)


def _refuse_isr(
    current: LeaderAndIsr, request: AlterPartition, live: Mapping[int, int]
) -> ErrorCode:
    new_isr = request.new_isr
    recovering = request.leader_recovery_state == RECOVERING
    if (
        len(set(new_isr)) != len(new_isr)
        or not set(new_isr) <= set(current.replicas)
        or current.leader not in new_isr
        or (recovering and len(new_isr) > 1)
        or (recovering and current.leader_recovery_state == RECOVERED)
    ):
        return ErrorCode.INVALID_REQUEST
    if any(replica not in live for replica in new_isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE

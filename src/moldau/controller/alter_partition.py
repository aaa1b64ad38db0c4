"""A leader asks for other in-sync replicas: whether it may (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Final

from moldau.controller.elections import Circumstances, in_earlier_life, with_isr
from moldau.controller.link import LeaderAndIsr
from moldau.controller.requests import AlterPartition
from moldau.coordination.znodes import RECOVERED, RECOVERING, BrokerRegistration
from moldau.errors import ErrorCode

UNKNOWN: Final = -1
"""The epoch of a broker that the leader has not heard from since it leads."""


def check_broker_epoch(
    brokers: Mapping[int, BrokerRegistration], broker: int, broker_epoch: int
) -> ErrorCode:
    """Whether it is the present life of a broker that asks; ``brokers`` are up."""
    if broker not in brokers or broker_epoch != brokers[broker].epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


def decide(
    current: LeaderAndIsr | None,
    request: AlterPartition,
    broker: int,
    staying: Sequence[int],
    now: Circumstances,
) -> LeaderAndIsr | ErrorCode:
    """Returns the new state (``current`` itself if it is that already), or why not.

    ``staying`` are the replicas that can serve and whose brokers are not about to stop. A request
    from the future means that this controller is the one that is behind. INELIGIBLE_REPLICA holds
    for the present: another copy of the request might be accepted later, by another controller
    perhaps. So the state has to be written again (``elections.renewed``), for which it is too late.
    """
    if current is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if request.topic_id != current.topic_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
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
    refusal = _refuse_isr(current, request, staying, now)
    if refusal is not ErrorCode.NONE:
        return refusal
    return with_isr(current, staying, now, request.new_isr, request.leader_recovery_state)


def _refuse_isr(
    current: LeaderAndIsr, request: AlterPartition, staying: Sequence[int], now: Circumstances
) -> ErrorCode:
    new_isr, epochs = request.new_isr, request.new_isr_epochs
    recovering = request.leader_recovery_state == RECOVERING
    if (
        len(set(new_isr)) != len(new_isr)
        or len(epochs) not in (0, len(new_isr))
        or not set(new_isr) <= set(current.replicas)
        or current.leader not in new_isr
        or (recovering and len(new_isr) > 1)
        or (recovering and current.leader_recovery_state == RECOVERED)
    ):
        return ErrorCode.INVALID_REQUEST
    known = list(zip_longest(new_isr, epochs, fillvalue=UNKNOWN))
    if any(epoch == UNKNOWN and replica not in current.isr for replica, epoch in known):
        return ErrorCode.INVALID_REQUEST
    for replica, epoch in known:
        if replica == current.leader:
            continue  # it is there to ask
        # Who had caught up in an earlier life may have lost what it had.
        if (
            replica not in staying
            or epoch not in (UNKNOWN, now.brokers[replica].epoch)
            or in_earlier_life(current, replica, now)
        ):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE

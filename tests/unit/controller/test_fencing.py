"""What a broker believes, and what it answers to the rest."""

from __future__ import annotations

import pytest

from moldau.controller import BrokerUpdate, ControllerFence, MetadataUpdate
from moldau.controller.fencing import check_epochs
from moldau.errors import ErrorCode, KafkaError

LIFE = 10


def update(
    epoch: int, sequence: int, *, full: bool = False, life: int = LIFE, form: int = 1
) -> BrokerUpdate:
    metadata = MetadataUpdate(full=full, full_ends=full)
    return BrokerUpdate(1, epoch, life, sequence, form, metadata=metadata)


def apply(fence: ControllerFence, *updates: BrokerUpdate) -> None:
    for one in updates:
        fence.admit(one)
        fence.begin(one)
        fence.end()


def refused(fence: ControllerFence, one: BrokerUpdate) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        apply(fence, one)
    return caught.value.code


@pytest.fixture
def fence() -> ControllerFence:
    return ControllerFence(lambda: LIFE)


def test_a_stale_controller_is_refused(fence: ControllerFence) -> None:
    apply(fence, update(4, 0, full=True), update(5, 0, full=True))
    assert refused(fence, update(4, 1, full=True)) is ErrorCode.STALE_CONTROLLER_EPOCH
    apply(fence, update(5, 1))
    assert fence.controller_epoch == 5


@pytest.mark.parametrize("life", [LIFE - 1, LIFE + 1])
def test_a_message_for_another_life_of_the_broker_is_refused(
    fence: ControllerFence, life: int
) -> None:
    assert refused(fence, update(4, 0, full=True, life=life)) is ErrorCode.STALE_BROKER_EPOCH
    assert fence.controller_epoch == 0, "a refused message teaches nothing"


def test_a_later_controller_counts_while_an_earlier_one_is_being_obeyed(
    fence: ControllerFence,
) -> None:
    earlier, later = update(4, 0, full=True), update(5, 0, full=True)
    fence.admit(earlier)
    fence.begin(earlier)
    fence.check(earlier)
    fence.admit(later)
    with pytest.raises(KafkaError) as caught:
        fence.check(earlier)
    assert caught.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
    fence.begin(later)
    fence.end()


def test_the_first_word_of_a_controller_has_to_be_everything(fence: ControllerFence) -> None:
    assert refused(fence, update(4, 0)) is ErrorCode.INVALID_UPDATE_VERSION
    apply(fence, update(4, 0, full=True), update(4, 1))
    assert refused(fence, update(5, 2)) is ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize("sequence", [0, 1, 3])
def test_nothing_is_obeyed_twice_late_or_after_a_gap(fence: ControllerFence, sequence: int) -> None:
    apply(fence, update(4, 0, full=True), update(4, 1))
    assert refused(fence, update(4, sequence)) is ErrorCode.INVALID_UPDATE_VERSION
    apply(fence, update(4, 2))


def test_everything_heals_a_gap_unless_it_is_late(fence: ControllerFence) -> None:
    apply(fence, update(4, 0, full=True), update(4, 1), update(4, 5, full=True), update(4, 6))
    assert refused(fence, update(4, 4, full=True)) is ErrorCode.INVALID_UPDATE_VERSION


def test_after_a_message_that_failed_half_way_only_everything_will_do(
    fence: ControllerFence,
) -> None:
    apply(fence, update(4, 0, full=True))
    fence.begin(update(4, 1))
    assert refused(fence, update(4, 2)) is ErrorCode.INVALID_UPDATE_VERSION
    assert refused(fence, update(4, 1)) is ErrorCode.INVALID_UPDATE_VERSION
    apply(fence, update(4, 3, full=True), update(4, 4))


def test_each_life_of_a_broker_is_counted_from_its_beginning() -> None:
    life = LIFE
    fence = ControllerFence(lambda: life)
    apply(fence, update(4, 0, full=True), update(4, 1))
    life += 1
    assert refused(fence, update(4, 2)) is ErrorCode.STALE_BROKER_EPOCH
    assert refused(fence, update(4, 0, life=life)) is ErrorCode.INVALID_UPDATE_VERSION
    apply(fence, update(4, 0, full=True, life=life), update(4, 1, life=life))


def test_what_would_be_misread_is_refused(fence: ControllerFence) -> None:
    assert refused(fence, update(4, 0, full=True, form=2)) is ErrorCode.UNSUPPORTED_VERSION
    assert fence.controller_epoch == 0


@pytest.mark.parametrize(
    ("known", "received", "broker", "received_broker", "error"),
    [
        (3, 3, 7, 7, ErrorCode.NONE),
        (3, 4, 7, 7, ErrorCode.NONE),
        (3, 4, 7, 8, ErrorCode.STALE_BROKER_EPOCH),
        (3, 2, 7, 7, ErrorCode.STALE_CONTROLLER_EPOCH),
        (3, 3, 7, 6, ErrorCode.STALE_BROKER_EPOCH),
        (3, 2, 7, 6, ErrorCode.STALE_CONTROLLER_EPOCH),
    ],
)
def test_epochs_are_compared(
    known: int, received: int, broker: int, received_broker: int, error: ErrorCode
) -> None:
    assert check_epochs(known, received, broker, received_broker) is error

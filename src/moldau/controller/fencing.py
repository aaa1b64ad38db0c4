"""How a broker tells a deposed controller's messages from the present one's."""

from __future__ import annotations

from moldau.controller.link import BrokerUpdate
from moldau.errors import ErrorCode, KafkaError


class ControllerFence:
    """Remembers the highest controller epoch seen; older ones are refused.

    ``broker_epoch`` is this broker's own: a message meant for its earlier life is refused too.
    """

    __slots__ = ("broker_epoch", "controller_epoch")

    def __init__(self, broker_epoch: int = -1) -> None:
        self.broker_epoch = broker_epoch
        self.controller_epoch = 0

    def admit(self, update: BrokerUpdate) -> None:
        """Raise KafkaError if the update must not be applied, else remember its epoch."""
        error = check_epochs(
            self.controller_epoch, update.controller_epoch, self.broker_epoch, update.broker_epoch
        )
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        self.controller_epoch = update.controller_epoch


def check_epochs(
    controller_epoch: int, received: int, broker_epoch: int, received_broker_epoch: int
) -> ErrorCode:
    """The epochs that the broker knows against those a message came with."""
    if received < controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    if received_broker_epoch < broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE

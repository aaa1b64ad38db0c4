"""What a broker believes: messages of the controller in charge, for this life, none left out."""

from __future__ import annotations

from collections.abc import Callable

from moldau.controller.link import FORMAT, BrokerUpdate
from moldau.errors import ErrorCode, KafkaError


class ControllerFence:
    """Remembers the highest controller epoch seen, and how far its messages were applied.

    ``broker_epoch`` tells this broker's own: what is meant for another life of it, earlier or
    later, is refused. After a message that was missed, or failed half way, only everything will do.
    """

    __slots__ = ("_broker_epoch", "_is_behind", "_life", "_sequence", "controller_epoch")

    def __init__(self, broker_epoch: Callable[[], int]) -> None:
        self._broker_epoch = broker_epoch
        self.controller_epoch = 0
        self._life = (0, -1)
        """The epochs of controller and broker that ``_sequence`` is for."""
        self._sequence = -1
        self._is_behind = True

    def admit(self, update: BrokerUpdate) -> None:
        """A message has come. Raises KafkaError if it must not be applied; else its epoch counts
        from now on, also against one that is being applied.
        """
        if update.format != FORMAT:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Updates of format {update.format} cannot be read here, only of {FORMAT}.",
            )
        self.check(update)
        self.controller_epoch = update.controller_epoch

    def check(self, update: BrokerUpdate) -> None:
        """Raises KafkaError if the message must not be applied (any more): to be called after
        every wait.
        """
        error = check_epochs(
            self.controller_epoch,
            update.controller_epoch,
            self._broker_epoch(),
            update.broker_epoch,
        )
        if error is not ErrorCode.NONE:
            raise KafkaError(error)

    def begin(self, update: BrokerUpdate) -> None:
        """It is the message's turn. Raises INVALID_UPDATE_VERSION if it is late, or one before it
        is missing: then the controller has to send everything.
        """
        self.check(update)
        life = (update.controller_epoch, update.broker_epoch)
        if life != self._life:
            self._life, self._sequence, self._is_behind = life, -1, True
        if update.metadata.full:
            follows = update.sequence > self._sequence
        else:
            follows = not self._is_behind and update.sequence == self._sequence + 1
        if not follows:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Update {update.sequence} does not follow update {self._sequence}.",
            )
        self._sequence, self._is_behind = update.sequence, True

    def end(self) -> None:
        """The message that has begun was applied."""
        self._is_behind = False


def check_epochs(
    controller_epoch: int, received: int, broker_epoch: int, received_broker_epoch: int
) -> ErrorCode:
    """The epochs that the broker knows against those a message came with."""
    if received < controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    if received_broker_epoch != broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE

"""What both membership machines have in common: the poll deadline, callbacks, and their shell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection

from moldau.client.consumer.membership.actions import (
    Action,
    CallBack,
    CallbackKind,
    Identity,
)
from moldau.errors import KafkaError
from moldau.model import TopicPartition

NEVER = float("inf")


class Member(ABC):
    """Events in, actions out; time is handed in, in seconds.

    The shell calls ``actions`` after every event and at ``wake_at``; each action is given once.
    """

    def __init__(self, max_poll_interval: float) -> None:
        self.failure: KafkaError | None = None
        """What poll raises while the machine is in FAILED."""
        self.attempt = 0
        self._max_poll_interval = max_poll_interval
        self._poll_deadline = NEVER
        self._callbacks: deque[CallBack] = deque()
        self._fresh_callbacks: list[CallBack] = []
        self._in_callback = False

    @property
    @abstractmethod
    def owned(self) -> frozenset[TopicPartition]:
        """What this member may read."""

    @property
    @abstractmethod
    def joined(self) -> bool:
        """Whether the coordinator counts us in: offsets can be committed as a member."""

    @property
    @abstractmethod
    def identity(self) -> Identity:
        """For requests about the group; without meaning unless ``joined``."""

    @property
    def owner(self) -> Identity:
        """As whom this member was given what it owns; without meaning unless ``joined``."""
        return self.identity

    @property
    @abstractmethod
    def is_content(self) -> bool:
        """Whether nothing about the membership needs the user's poll."""

    @abstractmethod
    def subscribe(self, topics: Collection[str], pattern: str | None = None) -> None:
        """What is wanted now; the same as before changes nothing."""

    @abstractmethod
    def leave(self) -> list[Action]:
        """Unsubscribed or closed. Partitions were given up before; the actions say goodbye."""

    @abstractmethod
    def actions(self, now: float) -> list[Action]: ...

    @abstractmethod
    def wake_at(self) -> float:
        """When ``actions`` should be called though nothing happens."""

    @abstractmethod
    def failed(self, action: Action, error: KafkaError, now: float) -> None:
        """A request was not answered, or with an error."""

    def poll_started(self) -> None:
        """The user polls, for as long as that may take."""
        self._poll_deadline = NEVER
        self._polled()

    def poll_ended(self, now: float) -> None:
        self._poll_deadline = now + self._max_poll_interval

    def is_wanted(self, callback: CallBack) -> bool:
        """Returns whether a callback has not been called off since it was asked for."""
        return callback in self._callbacks

    def callback_begins(self) -> None:
        """One that is wanted is being carried out."""
        self._in_callback = True

    def callback_done(self, callback: CallBack) -> None:
        """A callback was carried out; what it was for may be void meanwhile."""
        self._in_callback = False
        if callback in self._callbacks:
            self._callbacks.remove(callback)
            self._carried_out(callback)
        else:
            self._overtaken(callback)

    @abstractmethod
    def _polled(self) -> None: ...

    @abstractmethod
    def _carried_out(self, callback: CallBack) -> None: ...

    @abstractmethod
    def _overtaken(self, callback: CallBack) -> None: ...

    def _call_back(self, kind: CallbackKind, partitions: Collection[TopicPartition]) -> None:
        callback = CallBack(kind, frozenset(partitions))
        self._callbacks.append(callback)
        self._fresh_callbacks.append(callback)

    def _take_callbacks(self) -> list[CallBack]:
        fresh, self._fresh_callbacks = self._fresh_callbacks, []
        return fresh

    def _poll_expired(self, now: float) -> bool:
        return now >= self._poll_deadline

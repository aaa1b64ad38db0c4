"""A connection in memory, as TCP would be: bytes in order, late, in pieces, until it breaks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from moldau.machine import Part, Receiver
from moldau.machine.outgoing import Outgoing, read_exactly
from moldau.testing.simulation.eavesdropper import Conversation
from moldau.testing.simulation.process import Process

if TYPE_CHECKING:
    from moldau.testing.simulation.network import SimulatedNetwork

HIGH_WATER: Final = 1024 * 1024
LOW_WATER: Final = 256 * 1024
_CHUNK: Final = 64 * 1024
_SPLIT: Final = 0.05
"""How many of all chunks arrive in two pieces."""


class Signal(Enum):
    """What may arrive beside bytes."""

    END = auto()
    """The peer sends no more."""
    RESET = auto()
    """The peer does not know the connection any more."""


Segment = bytes | Signal


class EndState(Enum):
    OPEN = auto()
    CLOSING = auto()
    """What is queued still goes out; nothing is read."""
    CLOSED = auto()
    """What arrives is answered with a reset."""
    LOST = auto()
    """The machine lost its memory of it: what arrives is answered with a reset once it is up."""


class SimulatedEnd:
    """One end of a connection: the transport of a receiver on a host."""

    def __init__(self, network: SimulatedNetwork, host: str, process: Process, peer: str) -> None:
        self.host = host
        self.process = process
        self.peer = peer
        self.peer_host = peer.rpartition(":")[0]
        self.other: SimulatedEnd
        self.conversation = Conversation()
        self.is_client = True
        """Whether this end has connected to the other."""
        self.state = EndState.OPEN
        self._network = network
        self._loop = network.loop
        self._receiver: Receiver | None = None
        self._outgoing = Outgoing()
        self._unread: deque[Segment] = deque()
        self._reading_paused = False
        self._writing_paused = False
        self._ended = False
        """The peer has said that it sends no more, and the receiver knows."""
        # The way to the other end.
        self._window = network.quality.window
        self._under_way: deque[Segment] = deque()
        self._last_arrival = 0.0
        process.on_end[self.process_ended] = None

    def attach(self, receiver: Receiver) -> None:
        """The receiver takes part from now on; what has come before it waits."""
        self._receiver = receiver
        receiver.connection_made(self)
        self._loop.call_soon(self._read)

    # What the receiver calls ---------------------------------------------------------------------

    @property
    def is_closing(self) -> bool:
        return self.state is not EndState.OPEN

    @property
    def queued_bytes(self) -> int:
        return self._outgoing.size

    def write(self, parts: Sequence[Part]) -> None:
        self.process.check_alive()
        if self.state in (EndState.CLOSED, EndState.LOST):
            return
        try:
            self._outgoing.extend(parts)
        except OSError as error:
            self._lose(error)
            return
        self._pump()

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        if self._reading_paused and self.state is EndState.OPEN:
            self._reading_paused = False
            if self._unread:
                self._loop.call_soon(self._read)

    def close(self) -> None:
        self.process.check_alive()
        if self.state is EndState.OPEN:
            self.state = EndState.CLOSING
            self._reading_paused = True
            if not self._outgoing.size:
                self._lose(None)

    def abort(self) -> None:
        self.process.check_alive()
        self._lose(None)

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon(callback)

    # Sending -------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Send as much as the window takes, then see to back-pressure and the end."""
        outgoing = self._outgoing
        try:
            while outgoing.size and self._window > 0 and self.state is not EndState.CLOSED:
                size = min(self._window, _CHUNK)
                head = outgoing.head()
                if head is None:
                    data = b"".join(outgoing.buffers()[0])[:size]
                else:
                    data = read_exactly(head.file, min(head.remaining, size), head.position)
                outgoing.consume(len(data))
                self._window -= len(data)
                self._transmit(data)
        except OSError as error:
            self._lose(error)
            return
        if not outgoing.size and self.state is EndState.CLOSING:
            self._lose(None)
        elif outgoing.size > HIGH_WATER and not self._writing_paused and self._receiver is not None:
            self._writing_paused = True
            self._receiver.pause_writing()
        elif outgoing.size <= LOW_WATER and self._writing_paused and self._receiver is not None:
            self._writing_paused = False
            self._receiver.resume_writing()

    def _transmit(self, segment: Segment) -> None:
        random = self._network.random
        if isinstance(segment, bytes) and len(segment) > 1 and random.random() < _SPLIT:
            at = random.randrange(1, len(segment))
            self._transmit(segment[:at])
            segment = segment[at:]
        self._under_way.append(segment)
        self._schedule_arrival(segment)

    def _schedule_arrival(self, segment: Segment) -> None:
        network = self._network
        size = len(segment) if isinstance(segment, bytes) else 0
        takes = network.quality.delay(network.random) + size / network.quality.bytes_per_second
        arrival = max(self._loop.time() + takes, self._last_arrival)
        self._last_arrival = arrival
        # The world delivers, whatever the two processes are doing.
        self._loop.call_at(arrival, self._arrive, context=network.world)

    def _arrive(self) -> None:
        """The next segment reaches the other end, unless the way is cut."""
        if not self._under_way:
            return
        if not self._network.links.leads(self.host, self.other.host):
            self._network.hold(self)
            return
        segment = self._under_way.popleft()
        self._network.delivered(self, segment)
        self.other.receive(segment)

    def send_again(self) -> None:
        """The way is open again: what got lost on it is sent once more."""
        for segment in self._under_way:
            self._schedule_arrival(segment)

    @property
    def has_segments_under_way(self) -> bool:
        return bool(self._under_way)

    # Receiving -----------------------------------------------------------------------------------

    def receive(self, segment: Segment) -> None:
        if self.state in (EndState.CLOSED, EndState.LOST):
            if isinstance(segment, bytes) and self._network.is_up(self.host):
                self._under_way.append(Signal.RESET)
                self._schedule_arrival(Signal.RESET)
            return
        if segment is Signal.RESET:
            self._unread.clear()
            self._lose(ConnectionResetError(104, "Connection reset by peer"))
            return
        self._unread.append(segment)
        if self._receiver is not None and not self._reading_paused and len(self._unread) == 1:
            self._loop.call_soon(self._read, context=self.process.context)

    def _read(self) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        consumed = 0
        while self._unread and not self._reading_paused and self.state is EndState.OPEN:
            segment = self._unread.popleft()
            if isinstance(segment, Signal):
                self._reading_paused = True
                if not receiver.eof_received():
                    self.close()
                break
            buffer = receiver.get_buffer(-1)
            taken = segment[: len(buffer)]
            buffer[: len(taken)] = taken
            if len(taken) < len(segment):
                self._unread.appendleft(segment[len(taken) :])
            consumed += len(taken)
            receiver.buffer_updated(len(taken))
        if consumed:
            self._loop.call_later(
                self._network.quality.shortest,
                self.other.window_grows,
                consumed,
                context=self.other.process.context,
            )

    def window_grows(self, size: int) -> None:
        self._window += size
        if self._outgoing.size:
            self._pump()

    # The end -------------------------------------------------------------------------------------

    def _lose(self, error: OSError | None) -> None:
        if self.state in (EndState.CLOSED, EndState.LOST):
            return
        self.state = EndState.CLOSED
        self._reading_paused = True
        self._outgoing.clear()
        self.process.on_end.pop(self.process_ended, None)
        # As the system does: bytes that nobody read make a reset of what would be a good end.
        if not isinstance(error, ConnectionResetError):
            has_unread = any(isinstance(segment, bytes) for segment in self._unread)
            self._transmit(Signal.RESET if has_unread else Signal.END)
        self._unread.clear()
        if self._receiver is not None:
            self._loop.call_soon(self._finish, error, context=self.process.context)

    def _finish(self, error: OSError | None) -> None:
        if self._receiver is not None:
            self._receiver.connection_lost(error)

    def process_ended(self) -> None:
        """The process was killed: the system closes its socket, what it has sent goes out."""
        if self._network.random.random() < 0.5:
            self._unread.clear()
        self.state = EndState.CLOSED
        self._outgoing.clear()
        self._transmit(Signal.RESET if self._unread else Signal.END)
        self._unread.clear()

    def forget(self) -> None:
        """The power was cut: nothing goes out any more, and nobody is told."""
        self.state = EndState.LOST
        self.process.on_end.pop(self.process_ended, None)
        self._under_way.clear()
        self._outgoing.clear()
        self._unread.clear()

    def reset(self) -> None:
        """Something on the way broke the connection: both ends find out."""
        self._under_way.clear()
        self._unread.clear()
        self._loop.call_soon(
            self._lose,
            ConnectionResetError(104, "Connection reset by peer"),
            context=self.process.context,
        )

"""A connection in memory, as TCP would be: bytes in order, late, in pieces, until it breaks.

Each end plays two parts: the transport that a receiver writes to and is read for, as
``moldau.machine.real.sockets`` has it, and below that the system, which goes on when the process is
paused and cleans up when it has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from enum import Enum, auto
from errno import ECONNRESET, EPIPE
from os import strerror
from typing import TYPE_CHECKING, Final

from moldau.machine import Part, Receiver
from moldau.machine.outgoing import Outgoing, read_exactly
from moldau.testing.simulation.eavesdropper import Conversation
from moldau.testing.simulation.host import Host
from moldau.testing.simulation.process import Process

if TYPE_CHECKING:
    from moldau.testing.simulation.network import SimulatedNetwork

HIGH_WATER: Final = 1024 * 1024
LOW_WATER: Final = 256 * 1024
TURN_BYTES: Final = 4 * 1024 * 1024
_CHUNK: Final = 64 * 1024
_WINDOW_UPDATES: Final = 8
"""A reader says that it has read when it has taken this part of the window."""


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


class SimulatedEnd:
    """One end of a connection: the transport of a receiver on a host."""

    def __init__(
        self,
        network: SimulatedNetwork,
        host: Host,
        process: Process,
        target: Host,
        peer: str,
    ) -> None:
        self.host = host
        self.process = process
        self.peer = peer
        self.peer_host = target.name
        self.other: SimulatedEnd
        self.conversation = Conversation()
        self.is_client = True
        """Whether this end has connected to the other."""
        self.state = EndState.OPEN
        self._network = network
        self._loop = network.loop
        # The transport
        self._receiver: Receiver
        self._attached = False
        """Whether there is a receiver."""
        self._context: Context = process.context
        self._outgoing = Outgoing()
        self._reading_paused = False
        self._reading_soon = False
        self._writing_paused = False
        # The system: what has come
        self._unread: deque[bytes] = deque()
        self._taken = 0
        """Bytes that were read since the peer was told last."""
        self._update_at = max(1, network.quality.window // _WINDOW_UPDATES)
        self._peer_ended = False
        self._peer_reset = False
        # The system: what goes out
        self._way = host.way_to(target)
        self._window = network.quality.window
        self._under_way: deque[tuple[float, Segment]] = deque()
        """With the times at which they arrive."""
        self._scheduled = False
        """Whether somebody will see to the first of them: a timer, or whoever heals the way."""
        self._arrives_at = 0.0
        """When the last of them arrives."""
        self._stalled_at = -1.0
        """Since when nothing gets through."""
        process.on_end[self.process_ended] = None
        host.add(self)

    def attach(self, receiver: Receiver) -> None:
        """The receiver takes part from now on; what has come before it waits."""
        self._receiver = receiver
        self._attached = True
        self._context = copy_context()
        receiver.connection_made(self)
        self._wake_reader()

    # What the receiver calls ---------------------------------------------------------------------

    @property
    def is_closing(self) -> bool:
        return self.state is not EndState.OPEN

    @property
    def queued_bytes(self) -> int:
        return self._outgoing.size

    def write(self, parts: Sequence[Part]) -> None:
        self.process.check_alive()
        if self.state is EndState.CLOSED:
            return
        if self._peer_reset:
            self._fail()
            return
        if len(parts) == 1 and not self._outgoing.size:
            data = parts[0]
            if isinstance(data, bytes) and 0 < len(data) <= min(self._window, _CHUNK):
                # Most requests and answers: nothing waits, and all of it goes out.
                self._window -= len(data)
                self._transmit(data)
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
        if self.state is EndState.OPEN:
            self._reading_paused = False
            self._wake_reader()

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

    # Writing -------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Send as much as the window takes, then see to back-pressure and the end."""
        outgoing = self._outgoing
        try:
            while outgoing.size and self._window > 0:
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
        queued = outgoing.size
        if not queued and self.state is EndState.CLOSING:
            self._lose(None)
        elif queued > HIGH_WATER and not self._writing_paused:
            self._writing_paused = True
            self._receiver.pause_writing()
        elif queued <= LOW_WATER and self._writing_paused:
            self._writing_paused = False
            self._receiver.resume_writing()

    def window_grows(self, size: int) -> None:
        """The peer has read so many bytes."""
        self._window += size
        if self._outgoing.size:
            self._pump()

    # Reading -------------------------------------------------------------------------------------

    def _wake_reader(self) -> None:
        """Have the receiver called if there is something to read, and it wants it."""
        if (
            not self._reading_soon
            and not self._reading_paused
            and self._attached
            and (self._unread or self._peer_ended or self._peer_reset)
        ):
            self._reading_soon = True
            self._loop.call_soon(self._read, context=self._context)

    def _read(self) -> None:
        self._reading_soon = False
        receiver = self._receiver
        turn = TURN_BYTES
        try:
            while self._unread and not self._reading_paused and turn > 0:
                buffer = receiver.get_buffer(-1)
                size = self._take(buffer)
                receiver.buffer_updated(size)
                turn -= size
                if size < len(buffer):
                    # As a real socket: it is empty, and what else there is comes in another turn.
                    return
            if self._reading_paused or self._unread:
                return
            if self._peer_reset:
                self._fail()
            elif self._peer_ended:
                self._reading_paused = True
                if not receiver.eof_received():
                    self.close()
        finally:
            self._wake_reader()

    def _take(self, buffer: memoryview) -> int:
        """Fill as much of the memory as there are bytes."""
        unread = self._unread
        room = len(buffer)
        size = 0
        while unread and size < room:
            data = unread.popleft()
            end = size + len(data)
            if end > room:
                unread.appendleft(data[room - end :])
                data = data[: room - end]
                end = room
            buffer[size:end] = data
            size = end
        self._taken += size
        if self._taken >= self._update_at:
            self._update_window()
        return size

    def _update_window(self) -> None:
        if not self._way.leads:
            self._stall()
            return
        taken, self._taken = self._taken, 0
        other = self.other
        self._loop.call_later(
            self._network.quality.shortest, other.window_grows, taken, context=other._context
        )

    # The way to the other end --------------------------------------------------------------------

    def _transmit(self, segment: Segment) -> None:
        network = self._network
        quality, random = network.quality, network.random
        if isinstance(segment, bytes):
            if random.random() < quality.split and len(segment) > 1:
                at = random.randrange(1, len(segment))
                self._transmit(segment[:at])
                segment = segment[at:]
            size = len(segment)
        else:
            size = 0
        way = self._way
        way.free_at = max(self._loop.time(), way.free_at) + size / quality.bytes_per_second
        arrival = way.free_at + quality.delay(random) + way.detour
        if arrival < self._arrives_at:
            arrival = self._arrives_at  # no segment overtakes those before it
        self._arrives_at = arrival
        self._under_way.append((arrival, segment))
        if not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        """See to it that the first segment under way arrives."""
        self._scheduled = True
        # The world delivers, whatever the two processes are doing.
        self._loop.call_at(self._under_way[0][0], self._deliver, context=self._network.world)

    def _deliver(self) -> None:
        """The next segments reach the other end, unless the way is cut."""
        if not self._way.leads:
            self._stall()
            return
        under_way, now = self._under_way, self._loop.time()
        while under_way and under_way[0][0] <= now:
            segment = under_way.popleft()[1]
            self._network.delivered(self, segment)
            self.other.receive(segment)
        if under_way:
            self._schedule()
        else:
            self._scheduled = False

    def _stall(self) -> None:
        if self._stalled_at < 0:
            self._stalled_at = self._loop.time()
        self._way.stall(self)

    def send_again(self) -> None:
        """The way is open again: what got lost on it is sent once more."""
        now = self._loop.time()
        # TCP doubles the time between its attempts, so the next one may take as long again.
        arrival = now + (now - self._stalled_at) * self._network.random.random()
        self._stalled_at = -1.0
        self._arrives_at = max(arrival, self._arrives_at)
        self._under_way = deque((arrival, segment) for _, segment in self._under_way)
        self._scheduled = bool(self._under_way)
        if self._scheduled:
            self._schedule()
        if self._taken >= self._update_at:
            self._update_window()

    def receive(self, segment: Segment) -> None:
        """A segment has come; the system takes it."""
        if self.state is EndState.CLOSED:
            if isinstance(segment, bytes):
                self._transmit(Signal.RESET)
            return
        if isinstance(segment, bytes):
            self._unread.append(segment)
        elif segment is Signal.END:
            self._peer_ended = True
        else:
            self._peer_reset = True
        self._wake_reader()
        if self._peer_reset and self._outgoing.size:
            # Who waits to write finds out at once, others when they read or write.
            self._loop.call_soon(self._fail, context=self._context)

    # The end -------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether neither side of it has anything to say any more."""
        return self.state is EndState.CLOSED and not self._under_way

    def _fail(self) -> None:
        """The peer has reset the connection, and the receiver finds out."""
        number = EPIPE if self._peer_ended else ECONNRESET
        self._lose(OSError(number, strerror(number)))

    def _lose(self, error: OSError | None) -> None:
        if self.state is not EndState.CLOSED:
            # Bytes that nobody read make a reset of what would be a good end.
            self._shut(Signal.RESET if self._unread else Signal.END)
            if self._attached:
                self._loop.call_soon(self._finish, error, context=self._context)

    def _finish(self, error: OSError | None) -> None:
        self._receiver.connection_lost(error)

    def _shut(self, last_word: Signal) -> None:
        """The system closes the socket."""
        self._forget_data()
        if not self._peer_reset:
            self._transmit(last_word)

    def _forget_data(self) -> None:
        self.state = EndState.CLOSED
        self._reading_paused = True
        self._outgoing.clear()
        self._unread.clear()
        self.process.on_end.pop(self.process_ended, None)

    def process_ended(self) -> None:
        """The process was killed: the system closes its socket, what it has sent goes out."""
        if self.state is not EndState.CLOSED:
            # It may just have read what came last.
            has_unread = self._unread and self._network.random.random() < 0.5
            self._shut(Signal.RESET if has_unread else Signal.END)

    def refuse(self) -> None:
        """Nobody has taken the connection, and nobody will."""
        if self.state is not EndState.CLOSED:
            self._shut(Signal.RESET)

    def lose_power(self) -> None:
        """Nothing goes out any more, and nobody is told."""
        self._forget_data()
        self._under_way.clear()

    def reset(self) -> None:
        """Something on the way broke the connection: the system learns of it."""
        self._under_way.clear()
        self.receive(Signal.RESET)

"""The blocking producer: the async one's parts, with sends in the caller's thread."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from moldau.client.blocking import BlockingClient, blocking
from moldau.client.producer.arguments import SendHeaders, check_callback, pairs
from moldau.client.producer.async_producer import AsyncProducer
from moldau.client.producer.batch import Delivery, ManyDelivery, ProducerBatch
from moldau.client.producer.core import ProducerCore, many
from moldau.client.producer.preparation import OnDelivery, PreparedRecord

if TYPE_CHECKING:
    from moldau.client.large import LargeMessageCodec

logger: Final = logging.getLogger("moldau.client.producer")


class Producer(BlockingClient[AsyncProducer]):
    """Sends records; any number of threads may share one.

    ::

        with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
            delivery = producer.send("greetings", b"hello", key=b"en")
            print(delivery.result(timeout=10).offset)

    Leaving the block waits until every record is acknowledged or has failed. ``large_messages``
    lets values be larger than records may be: see ``moldau.client.large``.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        large_messages: LargeMessageCodec | None = None,
        **settings: object,
    ) -> None:
        inner = AsyncProducer(config, large_messages=large_messages, machine=None, **settings)
        super().__init__(inner, "producer")
        self._core = self._inner._core
        self._send = self._core.send
        self._thread.on_fork = self._core.after_fork
        self._closed = False
        self._abandoned = weakref.finalize(self, _abandon, self._core)

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: SendHeaders = (),
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Queue a record; the ``Delivery`` is a future of where it is stored.

        Blocks only for metadata of a new topic and for room in the buffer, ``max.block.ms`` at
        most. ``on_delivery`` is called with the ``Delivery`` when it is done, in the producer's
        thread. A record that cannot be queued raises here; no callback is called for it.
        """
        delivery = self._send(topic, value, key, headers, partition, timestamp, on_delivery)
        if isinstance(delivery, PreparedRecord):
            return self._thread.run(self._core.send_slowly(delivery))
        return delivery

    def send_many(
        self,
        topic: str,
        values: Sequence[Any],
        *,
        keys: Sequence[Any] | None = None,
        headers: SendHeaders = (),
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: Any = None,
    ) -> ManyDelivery:
        """Queue many records of a topic at once, which is several times as fast as one by one.

        ``headers`` and ``timestamp`` are those of each record. If one is refused (it is too large,
        it cannot be serialized), those before it are queued.
        """
        check_callback(on_delivery)
        ranges: list[tuple[ProducerBatch, int, int]] = []
        when = self._core.now_ms() if timestamp is None else timestamp
        rest = (topic, values, keys, pairs(headers), partition, when)
        done = self._core.try_send_many(*rest, 0, ranges)
        if done < len(values):
            self._thread.run(self._core.send_many_slowly(*rest, done, ranges))
        return many(ranges, when, on_delivery)

    flush = blocking(AsyncProducer.flush)
    partitions_for = blocking(AsyncProducer.partitions_for)
    init_transactions = blocking(AsyncProducer.init_transactions)
    begin_transaction = blocking(AsyncProducer.begin_transaction)
    send_offsets_to_transaction = blocking(AsyncProducer.send_offsets_to_transaction)
    commit_transaction = blocking(AsyncProducer.commit_transaction)
    prepare_transaction = blocking(AsyncProducer.prepare_transaction)
    abort_transaction = blocking(AsyncProducer.abort_transaction)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """``with producer.transaction():`` commits at the end, aborts on an exception."""
        transaction = self._inner.transaction()
        self._thread.run(transaction.__aenter__())
        try:
            yield self
        except BaseException as error:
            self._thread.run(transaction.__aexit__(type(error), error, error.__traceback__))
            raise
        self._thread.run(transaction.__aexit__(None, None, None))

    def metrics(self) -> dict[str, float]:
        """Figures by Kafka's names: rates per second, totals, averages, times in milliseconds."""
        return self._inner.metrics()

    def close(self, timeout: float | None = None) -> None:
        """Flush for at most ``timeout`` seconds; what is not acknowledged by then fails."""
        if self._closed or self._thread.forked:
            return
        self._thread.run(self._inner.close(timeout))
        self._closed = True
        self._abandoned.detach()
        self._thread.stop()

    def __repr__(self) -> str:
        return repr(self._inner).replace("AsyncProducer", "Producer")


def _abandon(core: ProducerCore) -> None:
    """A producer that nobody closed: say what is lost with it, and let nobody wait for that."""
    left = core.unsettled_records
    if left:
        logger.error("a producer ends without close(): %d records may not be stored", left)
    core.abandon()

"""What any client writes, every client reads back byte for byte: writers by codecs by readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from tests.compat.conftest import ClientPool
from tests.compat.kinds import KINDS, READERS, WRITERS
from tests.support.clients.base import Client, ClientError, Sample
from tests.support.clients.confluent import ConfluentKafka
from tests.support.samples import BEYOND_LIMIT_BYTES, NEAR_LIMIT_BYTES, incompressible, samples
from tests.support.segments import stored_batches
from tests.support.target import Target

WRITES = [(writer, codec) for writer in WRITERS for codec in writer.codecs]


@dataclass(frozen=True)
class Written:
    topic: str
    samples: list[Sample]
    offsets: list[int]


def slug(writer: type[Client]) -> str:
    return writer.name.replace(" ", "-")


@pytest.fixture(scope="session")
def written(clients: ClientPool) -> Callable[[type[Client], str], Written]:
    """Writes the samples once per writer and codec; later calls return what was written then."""
    done: dict[tuple[type[Client], str], Written] = {}

    def write(writer: type[Client], codec: str) -> Written:
        if (writer, codec) not in done:
            topic = f"records-{slug(writer)}-{codec}"
            done[writer, codec] = _write(clients, writer, topic, samples(), codec)
        return done[writer, codec]

    return write


@pytest.fixture(scope="session")
def near_limit(clients: ClientPool) -> Callable[[type[Client]], Written]:
    done: dict[type[Client], Written] = {}

    def write(writer: type[Client]) -> Written:
        if writer not in done:
            topic = f"near-limit-{slug(writer)}"
            small = Sample(b"small", b"value")
            large = Sample(b"large", incompressible(NEAR_LIMIT_BYTES))
            done[writer] = _write(clients, writer, topic, [small, large, small], "none")
        return done[writer]

    return write


def _write(
    clients: ClientPool, writer: type[Client], topic: str, given: Sequence[Sample], codec: str
) -> Written:
    client = clients.get(writer)
    kept = [sample for sample in given if client.can_write(sample)]
    if not client.sets_timestamps:
        kept = [sample.without_timestamp() for sample in kept]
    clients.get(ConfluentKafka).create_topic(topic, 1)
    offsets = client.write(topic, kept, codec, max_request_bytes=2 * NEAR_LIMIT_BYTES)
    return Written(topic, kept, offsets)


def assert_same(read: Sequence[Sample], wrote: Sequence[Sample]) -> None:
    assert len(read) == len(wrote)
    for got, expected in zip(read, wrote, strict=True):
        if expected.timestamp_ms is None:
            assert got.timestamp_ms is not None
            assert got.timestamp_ms > 0
            assert got.without_timestamp() == expected
        else:
            assert got == expected


@pytest.mark.compat("Records, {codec}", "{writer}")
@pytest.mark.parametrize(("writer", "codec"), WRITES)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_what_a_writer_wrote(
    writer: type[Client],
    codec: str,
    reader: type[Client],
    written: Callable[[type[Client], str], Written],
    clients: ClientPool,
) -> None:
    wrote = written(writer, codec)
    read = clients.get(reader).read(wrote.topic, len(wrote.samples))
    assert_same(read, wrote.samples)


@pytest.mark.compat("Read without a group", "{reader}")
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_reads_every_shape_of_record(
    reader: type[Client],
    written: Callable[[type[Client], str], Written],
    clients: ClientPool,
) -> None:
    wrote = written(ConfluentKafka, "none")
    assert len(wrote.samples) == len(samples())
    assert_same(clients.get(reader).read(wrote.topic, len(wrote.samples)), wrote.samples)


@pytest.mark.parametrize(("writer", "codec"), WRITES)
def test_offsets_are_dense_and_the_codec_is_kept_on_disk(
    writer: type[Client],
    codec: str,
    written: Callable[[type[Client], str], Written],
    clients: ClientPool,
    target: Target,
) -> None:
    wrote = written(writer, codec)
    assert wrote.offsets == list(range(len(wrote.samples)))
    assert clients.get(ConfluentKafka).latest_offset(wrote.topic) == len(wrote.samples)
    stored = list(stored_batches(target.data_dir / f"{wrote.topic}-0"))
    assert sum(batch.records for batch in stored) == len(wrote.samples)
    # A client may leave a batch as it is where compressing would not make it smaller.
    assert codec in {batch.codec for batch in stored}
    assert {batch.codec for batch in stored} <= {codec, "none"}


@pytest.mark.compat("Batch near max.message.bytes", "{writer}")
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("reader", READERS)
def test_a_batch_just_below_the_limit_is_written_and_read(
    writer: type[Client],
    reader: type[Client],
    near_limit: Callable[[type[Client]], Written],
    clients: ClientPool,
) -> None:
    wrote = near_limit(writer)
    assert_same(clients.get(reader).read(wrote.topic, len(wrote.samples)), wrote.samples)


@pytest.mark.compat("Batch beyond max.message.bytes refused", "{writer}")
@pytest.mark.parametrize("writer", WRITERS)
def test_a_batch_beyond_the_limit_is_refused(writer: type[Client], clients: ClientPool) -> None:
    topic = f"beyond-limit-{slug(writer)}"
    admin = clients.get(ConfluentKafka)
    admin.create_topic(topic, 1)
    large = Sample(b"large", incompressible(BEYOND_LIMIT_BYTES))
    with pytest.raises(ClientError, match=r"(?i)too.?large|MSG_SIZE_TOO_LARGE"):
        clients.get(writer).write(topic, [large], "none", max_request_bytes=4 * NEAR_LIMIT_BYTES)
    assert admin.latest_offset(topic) == 0


def test_all_kinds_of_clients_are_covered() -> None:
    assert set(WRITERS) == set(KINDS)
    assert len(READERS) == len(KINDS) - 1  # kafkajs reads in groups only

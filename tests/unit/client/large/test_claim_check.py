"""Payloads in shared storage, and the records that stand for them."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from moldau.client.errors import ConfigError, LargeMessageError
from moldau.client.large import ClaimCheck
from moldau.client.large.claim_check import ADDRESS, address_of
from moldau.machine.real import this_machine
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord

P = TopicPartition("photos", 0)


@pytest.fixture(params=["folder", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "folder" else f"memory://{uuid.uuid4().hex}"


def record_of(codec: ClaimCheck, value: bytes, offset: int = 0) -> ConsumerRecord:
    ((small, headers),) = codec.encode("photos", value, [("kind", b"jpeg")], this_machine())
    return ConsumerRecord("photos", 0, offset, 1000, key=b"k", value=small, headers=tuple(headers))


def test_a_payload_goes_out_and_comes_back(url: str) -> None:
    codec = ClaimCheck(url, threshold=10)
    value = bytes(range(256)) * 40
    record = record_of(codec, value)
    assert record.value == b"", "not null, which would be a tombstone"
    (whole,) = ClaimCheck(url).reader().read(P, [record], 0.0)
    assert whole == ConsumerRecord(
        "photos", 0, 0, 1000, key=b"k", value=value, headers=(("kind", b"jpeg"),)
    )


def test_small_values_stay_in_the_record(url: str) -> None:
    codec = ClaimCheck(url, threshold=10)
    assert codec.encode("photos", b"x" * 10, (), this_machine()) == []
    assert codec.encode("photos", None, (), this_machine()) == []
    record = ConsumerRecord("photos", 0, 0, value=b"small")
    assert codec.reader().read(P, [record], 0.0) == [record]


def test_a_missing_payload_is_reported_and_holds_back_the_commit(url: str) -> None:
    codec = ClaimCheck(url, threshold=10)
    gone, there = record_of(codec, bytes(20), 5), record_of(codec, bytes(30), 6)
    address = address_of(gone)
    assert address is not None
    codec.storage.files.rm_file(address)
    reader = codec.reader()
    assert [r.offset for r in reader.read(P, [gone, there], 0.0)] == [6]
    assert reader.committable(P, 7) == 5
    with pytest.raises(LargeMessageError, match="no payload at") as caught:
        reader.check()
    assert caught.value.offset == 5
    reader.check()
    assert reader.committable(P, 7) == 7


def test_another_payload_under_the_same_address_is_found_out(url: str) -> None:
    codec = ClaimCheck(url, threshold=10)
    record = record_of(codec, bytes(20))
    codec.storage.files.pipe_file(address_of(record), b"something else")
    reader = codec.reader()
    assert reader.read(P, [record], 0.0) == []
    with pytest.raises(LargeMessageError, match=r"digest of .* is wrong"):
        reader.check()


@pytest.mark.parametrize("inside", ["/../secret", ""])
def test_addresses_outside_of_the_folder_are_refused(tmp_path: Path, inside: str) -> None:
    (tmp_path / "secret").write_bytes(b"nobody's business")
    folder = tmp_path / "payloads"
    codec = ClaimCheck(str(folder), threshold=10)
    record = record_of(codec, bytes(20))
    elsewhere = (f"file://{folder}{inside}" if inside else f"file://{tmp_path / 'secret'}").encode()
    forged = tuple((n, elsewhere if n == ADDRESS else v) for n, v in record.headers)
    reader = codec.reader()
    assert reader.read(P, [ConsumerRecord("photos", 0, 0, headers=forged)], 0.0) == []
    with pytest.raises(LargeMessageError, match="is not below"):
        reader.check()


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        ClaimCheck(str(tmp_path), on_damage="cry")  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        ClaimCheck(str(tmp_path), threshold=-1)

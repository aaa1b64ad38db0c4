"""Large values in shared storage; the record has the address, the size and the digest.

Storage is anything that fsspec knows (the extra ``claim-check``): a folder, S3, … The
payload is stored before the record is sent, so whoever sees the record finds the payload, and a
payload without a record is only waste, which :mod:`moldau.client.large.clean_up` removes.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from moldau.client.errors import ConfigError
from moldau.client.large.codec import Convert, Header, OnDamage, Part
from moldau.client.large.damage import Damages
from moldau.extras import how_to_install
from moldau.machine import Machine
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord

ADDRESS: Final = "moldau.claim.address"
SIZE: Final = "moldau.claim.size"
DIGEST: Final = "moldau.claim.digest"

_OURS: Final = frozenset({ADDRESS, SIZE, DIGEST})
_ATTEMPTS: Final = 4
_FIRST_PAUSE: Final = 0.1


class Storage:
    """One folder of a file system; below it, a folder for each topic."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ConfigError(
                f"claim checks need fsspec: {how_to_install('claim-check')}"
            ) from None
        self.files, root = url_to_fs(url, **options)
        self.root: str = root.rstrip("/")
        self._prefix = self.address(f"{self.root}/")

    def address(self, path: str) -> str:
        address: str = self.files.unstrip_protocol(path)
        return address

    def put(self, topic: str, value: bytes, machine: Machine) -> str:
        """Store a payload under a name that begins with the time; returns its address."""
        folder = f"{self.root}/{topic}"
        self.files.makedirs(folder, exist_ok=True)
        path = f"{folder}/{machine.clock.now_ms():013d}-{machine.new_uuid().hex}"
        with self.files.open(path, "wb") as file:
            file.write(value)
            file.flush()
            _sync(file)
        return self.address(path)

    def get(self, address: str) -> bytes:
        """The payload at an address below this folder: others are nobody's business here."""
        if not address.startswith(self._prefix) or ".." in address.split("/"):
            raise PermissionError(f"{address} is not below {self._prefix}")
        pause = _FIRST_PAUSE
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                payload: bytes = self.files.cat_file(address)
                return payload
            except FileNotFoundError:
                raise
            except OSError:
                if attempt == _ATTEMPTS:
                    raise
                time.sleep(pause)
                pause *= 2
        raise AssertionError


@dataclass(frozen=True)
class ClaimCheck:
    """``Producer(…, large_messages=ClaimCheck("s3://bucket/folder"))``, and so for consumers."""

    url: str
    """The folder; producers and consumers name the same one."""
    threshold: int = 900_000
    """Values over so many bytes are stored there."""
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    """What fsspec needs for this storage: keys, endpoints …"""
    on_damage: OnDamage = "raise"
    """What a consumer does when a payload is missing, unreadable or has another digest."""

    def __post_init__(self) -> None:
        if self.threshold < 0:
            raise ConfigError("threshold is a number of bytes")
        if self.on_damage not in ("raise", "skip"):
            raise ConfigError(f"on_damage is 'raise' or 'skip', not {self.on_damage!r}")
        object.__setattr__(self, "_storage", Storage(self.url, self.storage_options))

    @property
    def storage(self) -> Storage:
        storage: Storage = vars(self)["_storage"]
        return storage

    @property
    def blocking(self) -> bool:
        return True

    def encode(
        self, topic: str, value: bytes | None, headers: Sequence[Header], machine: Machine
    ) -> list[Part]:
        if value is None or len(value) <= self.threshold:
            return []
        claim: list[Header] = [
            (ADDRESS, self.storage.put(topic, value, machine).encode()),
            (SIZE, b"%d" % len(value)),
            (DIGEST, sha256(value).digest()),
        ]
        # Empty, not null: a null value would be a tombstone.
        return [(b"", [*headers, *claim])]

    def reader(self, convert: Convert | None = None) -> ClaimReader:
        return ClaimReader(self.storage, self.on_damage, convert)


class ClaimReader:
    """A :class:`LargeMessageReader`: fetches payloads when their records are polled."""

    def __init__(self, storage: Storage, on_damage: OnDamage, convert: Convert | None) -> None:
        self._storage = storage
        self._convert = convert
        self._damages = Damages(on_damage)

    def read(
        self,
        partition: TopicPartition,
        records: Sequence[ConsumerRecord],
        now: float,  # noqa: ARG002
    ) -> list[ConsumerRecord]:
        whole = []
        for record in records:
            claim = _read_claim(record.headers) if record.headers else None
            message = record if claim is None else self._redeem(partition, record, *claim)
            if message is not None and self._converted(partition, message):
                whole.append(message)
        return whole

    def check(self) -> None:
        self._damages.check()

    def committable(self, partition: TopicPartition, offset: int) -> int:
        return self._damages.lowest(partition, offset)

    def forget(self, partition: TopicPartition) -> None:
        self._damages.forget(partition)

    def _converted(self, partition: TopicPartition, record: ConsumerRecord) -> bool:
        if self._convert is not None:
            try:
                self._convert(record)
            except Exception as error:
                self._damages.add(partition, record.offset, str(error), error)
                return False
        return True

    def _redeem(
        self, partition: TopicPartition, record: ConsumerRecord, address: str, digest: bytes
    ) -> ConsumerRecord | None:
        try:
            value = self._storage.get(address)
        except FileNotFoundError:
            self._damages.add(partition, record.offset, f"there is no payload at {address}")
            return None
        except OSError as error:
            self._damages.add(partition, record.offset, f"cannot read {address}: {error}")
            return None
        if sha256(value).digest() != digest:
            self._damages.add(partition, record.offset, f"the digest of {address} is wrong")
            return None
        return ConsumerRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            record.key,
            value,
            tuple(header for header in record.headers if header[0] not in _OURS),
            record.leader_epoch,
        )


def address_of(record: ConsumerRecord) -> str | None:
    """Where a record's payload is; None if the record has its value itself."""
    claim = _read_claim(record.headers)
    return None if claim is None else claim[0]


def _read_claim(headers: Sequence[Header]) -> tuple[str, bytes] | None:
    ours = {name: value for name, value in headers if name in _OURS and value is not None}
    if ours.keys() != _OURS:
        return None
    return ours[ADDRESS].decode("utf-8", "replace"), ours[DIGEST]


def _sync(file: Any) -> None:
    """A record must not be acknowledged while its payload is only in this machine's memory."""
    try:
        number = file.fileno()
    except (AttributeError, OSError, io.UnsupportedOperation):
        return  # no file of this machine: what is closed is stored
    os.fsync(number)

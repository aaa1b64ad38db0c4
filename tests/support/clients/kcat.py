"""kcat: librdkafka at the command line.

A record is one run of kcat with the value in a file, which is the way to write arbitrary bytes.
Reading prints lengths before bytes, so that any byte may follow.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.clients.base import Client, ClientError, Sample

TIMEOUT_S = 150.0
HEADERS_END = b"\x1eheaders end\x1e"


class Kcat(Client):
    name = "kcat"
    sets_timestamps = False

    @classmethod
    def version(cls) -> str:
        printed = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
        return next(iter(re.findall(r"Version (\S+).*librdkafka (\S+)", printed)), ("", ""))[0]

    def can_write(self, sample: Sample) -> bool:
        # Key and headers are command line arguments.
        arguments = [sample.key or b"", *(value or b"" for _, value in sample.headers)]
        return not any(b"\0" in argument for argument in arguments)

    def write(
        self, topic: str, samples: Sequence[Sample], codec: str, max_request_bytes: int = 1_048_576
    ) -> list[int]:
        for sample in samples:
            arguments: list[str | bytes] = ["-P", "-t", topic, "-p", "0", "-z", codec]
            arguments += ["-X", "acks=all", "-X", f"message.max.bytes={max_request_bytes}"]
            for name, value in sample.headers:
                arguments += ["-H", name if value is None else name.encode() + b"=" + value]
            if sample.key and sample.value:
                self._write_file([*arguments, "-k", sample.key], sample.value)
            elif sample.key is None and sample.value:
                self._write_file(arguments, sample.value)
            else:
                self._write_line(arguments, sample)
        return list(range(len(samples)))

    def _write_file(self, arguments: Sequence[str | bytes], value: bytes) -> None:
        """The whole file is the value, whatever bytes it has. An empty file is not sent at all."""
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_bytes(value)
            self._run([*arguments, file.name])

    def _write_line(self, arguments: Sequence[str | bytes], sample: Sample) -> None:
        """Key and value around a delimiter; -Z turns the empty ones into nulls."""
        nulls = ["-Z"] if None in (sample.key, sample.value) else []
        line = (sample.key or b"") + b":" + (sample.value or b"") + b"\n"
        self._run([*arguments, "-K", ":", *nulls], line)

    def read(self, topic: str, count: int, *, committed: bool = False) -> list[Sample]:
        level = "read_committed" if committed else "read_uncommitted"
        marker = "".join(f"\\x{byte:02x}" for byte in HEADERS_END)
        options = f"-C -t {topic} -p 0 -o beginning -c {count} -e -q -X isolation.level={level}"
        output = self._run(
            [*options.split(), "-X", "fetch.wait.max.ms=100", "-f", f"%K %S %T %k%s%h{marker}"]
        )
        return _parse(output)

    def list_topics(self) -> set[str]:
        listed = self._run(["-L"]).decode()
        return set(re.findall(r'topic "([^"]+)"', listed))

    def partition_count(self, topic: str) -> int:
        listed = self._run(["-L", "-t", topic]).decode()
        return int(re.findall(rf'topic "{re.escape(topic)}" with (\d+) partitions', listed)[0])

    def offset_for_timestamp(self, topic: str, timestamp_ms: int) -> int:
        answer = self._run(["-Q", "-t", f"{topic}:0:{timestamp_ms}"]).decode()
        return int(re.findall(r"offset (-?\d+)", answer)[0])

    def earliest_offset(self, topic: str) -> int:
        return self.offset_for_timestamp(topic, -2)

    def latest_offset(self, topic: str) -> int:
        return self.offset_for_timestamp(topic, -1)

    def node_ids(self) -> set[int]:
        return {int(node) for node in re.findall(r"broker (\d+) at", self._run(["-L"]).decode())}

    def _run(self, arguments: Sequence[str | bytes], stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            ["kcat", "-b", self.bootstrap, "-m", "60", *arguments],
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise ClientError("kcat", done.stderr.decode(errors="replace"))
        return done.stdout


def _parse(output: bytes) -> list[Sample]:
    samples: list[Sample] = []
    position = 0
    while position < len(output):
        key_length, value_length, timestamp, rest = output[position:].split(b" ", 3)
        position = len(output) - len(rest)
        key, position = _take(output, position, int(key_length))
        value, position = _take(output, position, int(value_length))
        end = output.index(HEADERS_END, position)
        headers = _parse_headers(output[position:end])
        position = end + len(HEADERS_END)
        samples.append(Sample(key, value, headers, int(timestamp)))
    return samples


def _take(output: bytes, position: int, length: int) -> tuple[bytes | None, int]:
    if length < 0:
        return None, position
    return output[position : position + length], position + length


def _parse_headers(text: bytes) -> tuple[tuple[str, bytes | None], ...]:
    if not text:
        return ()
    pairs = [pair.partition(b"=") for pair in text.split(b",")]
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)

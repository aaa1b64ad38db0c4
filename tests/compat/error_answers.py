"""What brokers answer to bad requests: the error codes, and the messages that go with them.

``data/kafka_4_3_1_errors.jsonl`` holds what Apache Kafka 4.3.1 answered, ``data/own_answers.toml``
where Moldau answers something else and why. After a change of the requests record Kafka's answers
again; see where Moldau's are others than expected; write docs/compatibility.md:

    python -m tests.compat.error_answers record
    python -m tests.compat.error_answers show
    python -m tests.compat.error_answers docs
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.compat import bad_config_values, bad_group_requests, bad_requests
from tests.compat.bad_requests import RECORDS_IN_PLAIN, TOPICS, Case
from tests.support.apache_kafka import ApacheKafka
from tests.support.clients.base import ClientError, Sample
from tests.support.clients.confluent import ConfluentKafka
from tests.support.java import KAFKA_VERSION, ROOT
from tests.support.moldau import Moldau
from tests.support.raw import RawClient
from tests.support.requests import request
from tests.support.target import Target
from tests.support.waiting import eventually

DATA = Path(__file__).parent / "data"
KAFKA_ANSWERS = DATA / "kafka_4_3_1_errors.jsonl"
KAFKA_VERSIONS = DATA / "kafka_4_3_1_versions.json"
OWN_ANSWERS = DATA / "own_answers.toml"
PAGE = ROOT / "docs/compatibility.md"
BEGIN = "<!-- answers of our own: written by python -m tests.compat.error_answers docs -->"
END = "<!-- end of answers of our own -->"

CASES: tuple[Case, ...] = (
    *bad_requests.CASES,
    *bad_group_requests.CASES,
    *bad_config_values.cases(),
)
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
}
NOT_YET = ("coordinator_load_in_progress", "coordinator_not_available", "not_coordinator")
TIMES = re.compile(r"\b\d{13}\b")


class Said(NamedTuple):
    """An error code (or which record of a batch is meant), and the message that came with it."""

    code: str
    message: str

    def is_as(self, expected: Said) -> bool:
        """Where nothing is said besides a code, or there is no error, any message will do."""
        silent = not expected.message or expected.code == "NONE"
        return self.code == expected.code and (silent or self.message == expected.message)


Answer = tuple[Said, ...]
"""From the outside in."""


@cache
def kafka_answers() -> dict[str, Answer]:
    lines = map(json.loads, KAFKA_ANSWERS.read_text().splitlines())
    return {name: _answer(said) for name, said in lines}


@cache
def own_answers() -> dict[str, tuple[Answer, str]]:
    """Moldau's answers that are not Kafka's, with the reason."""
    return {
        name: (_answer(said), own["reason"])
        for own in tomllib.loads(OWN_ANSWERS.read_text())["own"]
        for name, said in own["answers"].items()
    }


def _answer(said: list[list[str]]) -> Answer:
    return tuple(Said(*each) for each in said)


def is_as(answer: Answer, expected: Answer) -> bool:
    return len(answer) == len(expected) and all(map(Said.is_as, answer, expected))


def answers(target: Target) -> dict[str, Answer]:
    """Make topics, send all requests one after the other, and return what is said to each."""
    prepare(target.bootstrap)
    client = RawClient(target.bootstrap)
    try:
        return {case.name: tuple(_said(client.call(case.make()))) for case in CASES}
    finally:
        client.close()


def prepare(bootstrap: str) -> None:
    client = ConfluentKafka(bootstrap)
    for topic, configs in TOPICS.items():
        client.create_topic(topic, 1, configs)
    # Kafka's controller answers before its broker has made them.
    eventually(lambda: all(is_led(client, topic) for topic in TOPICS))
    client.write("plain", [Sample(b"key", b"value")] * RECORDS_IN_PLAIN, "none")
    eventually(lambda: has_coordinator(bootstrap))


def is_led(client: ConfluentKafka, topic: str) -> bool:
    try:
        return client.latest_offset(topic) == 0
    except ClientError:
        return False


def has_coordinator(bootstrap: str) -> bool:
    client = RawClient(bootstrap)
    try:
        client.call(request("find_coordinator", 4, key_type=0, coordinator_keys=["g"]))
        wanted = {"group_id": "g", "topics": None}
        answer = client.call(request("offset_fetch", 8, groups=[wanted]))
        return answer.groups[0].error_code.name not in NOT_YET
    finally:
        client.close()


def _said(message: Any) -> Iterator[Said]:
    if isinstance(message, tuple):
        for each in message:
            yield from _said(each)
    elif dataclasses.is_dataclass(message):
        values = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
        if "error_code" in values:
            yield Said(values["error_code"].name.upper(), _timeless(values.get("error_message")))
        if "batch_index_error_message" in values:
            text = _timeless(values["batch_index_error_message"])
            yield Said(f"record {values['batch_index']}", text)
        for value in values.values():
            yield from _said(value)


def _timeless(text: str | None) -> str:
    return TIMES.sub("<ms>", text or "")


def versions(client: RawClient) -> dict[str, list[int]]:
    """The versions of each API that a broker advertises, by API key."""
    answer = client.call(
        request("api_versions", 4, client_software_name="moldau-tests", client_software_version="1")
    )
    return {str(key.api_key): [key.min_version, key.max_version] for key in answer.api_keys}


def kafka_versions() -> dict[str, list[int]]:
    ranges: dict[str, list[int]] = json.loads(KAFKA_VERSIONS.read_text())
    return ranges


def section() -> str:
    """The section of docs/compatibility.md, with its markers."""
    lines = [
        BEGIN,
        "## Answers of our own",
        "",
        f"About {len(CASES) // 10 * 10} bad requests are answered with the error codes and in the",
        f"words of Apache Kafka {KAFKA_VERSION}, which its tools print and programs look for.",
        "Where Kafka sends a code alone, Moldau may say more. These are answered otherwise:",
        "",
        "| request | Apache Kafka | Moldau | why |",
        "|---|---|---|---|",
    ]
    kafka = kafka_answers()
    for name, (answer, reason) in own_answers().items():
        lines.append(f"| {name} | {_cell(kafka[name])} | {_cell(answer)} | {reason} |")
    return "\n".join([*lines, END])


def _cell(answer: Answer) -> str:
    text = "; ".join(
        f"{said.code}: {said.message}" if said.message else said.code for said in answer
    )
    return text.replace("|", "\\|").replace("<", "&lt;")


def record() -> None:
    """Ask Apache Kafka."""
    with (
        tempfile.TemporaryDirectory() as directory,
        ApacheKafka(Path(directory), SETTINGS) as kafka,
    ):
        lines = [json.dumps([name, answer]) + "\n" for name, answer in answers(kafka).items()]
        KAFKA_ANSWERS.write_text("".join(lines))
        client = RawClient(kafka.bootstrap)
        KAFKA_VERSIONS.write_text(json.dumps(versions(client)) + "\n")
        client.close()


def show() -> None:
    """Print what Moldau answers otherwise than it should."""
    kafka, own = kafka_answers(), own_answers()
    with tempfile.TemporaryDirectory() as directory:
        moldau = Moldau(Path(directory), SETTINGS)
        moldau.start()
        try:
            given = answers(moldau)
        finally:
            moldau.kill()
    for name, answer in given.items():
        expected = own[name][0] if name in own else kafka[name]
        if not is_as(answer, expected):
            print(f"{name}\n  Kafka   {_cell(kafka[name])}\n  Moldau  {_cell(answer)}")


def write_docs() -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + section() + rest.partition(END)[2])


if __name__ == "__main__":
    {"record": record, "show": show, "docs": write_docs}[sys.argv[1]]()

"""The commands against a running broker: what they do, print and end with."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from tests.support.cli import CommandLine

from moldau import __version__
from moldau.testing.broker import MoldauProcess


def name() -> str:
    return f"cli-{uuid.uuid4().hex[:8]}"


def test_topics_are_created_listed_described_and_deleted(moldau: CommandLine) -> None:
    first, second = name(), name()
    created = moldau(
        "topic", "create", first, second, "-p", "2", "-c", "retention.ms=5000", "--json"
    )
    assert [(t["name"], t["partitions"]) for t in created.json] == [(first, 2), (second, 2)]

    assert [first, "2", "1"] in moldau("topic", "list").rows
    listed = {topic["name"]: topic for topic in moldau("topic", "list", "--json").json}
    assert listed[second]["partitions"] == 2

    (described,) = moldau("topic", "describe", first, "--json").json
    assert described["configs"] == {"retention.ms": "5000"}
    assert [p["partition"] for p in described["partitions"]] == [0, 1]
    assert {(p["leader"], p["start_offset"], p["end_offset"]) for p in described["partitions"]} == {
        (1, 0, 0)
    }
    assert [row[:2] for row in moldau("topic", "describe", first).rows] == [
        [first, "0"],
        [first, "1"],
    ]

    assert moldau("topic", "delete", first, second, "--json").json == [
        {"name": first},
        {"name": second},
    ]
    assert first not in {row[0] for row in moldau("topic", "list").rows}


def test_creating_twice_fails_unless_told_otherwise(moldau: CommandLine) -> None:
    topic = name()
    moldau("topic", "create", topic)
    again = moldau("topic", "create", topic, code=1)
    assert again.out == ""
    assert again.err.startswith(f"moldau: Topic '{topic}' already exists")
    assert again.err.count("\n") == 1
    moldau("topic", "create", topic, "--if-not-exists")


def test_a_dry_run_creates_nothing(moldau: CommandLine) -> None:
    topic = name()
    moldau("topic", "create", topic, "--dry-run")
    assert topic not in {row[0] for row in moldau("topic", "list").rows}
    moldau("topic", "create", "no spaces!", "--dry-run", code=1)


def test_an_unknown_topic_is_named_with_the_closest_one(moldau: CommandLine) -> None:
    topic = name()
    moldau("topic", "create", topic)
    for command in (["topic", "describe"], ["topic", "delete"], ["consume"], ["produce"]):
        values = ["x"] if command == ["produce"] else []
        missing = moldau(*command, topic + "x", *values, code=4)
        assert missing.err == f"moldau: There is no topic '{topic}x'. Did you mean '{topic}'?\n"
    moldau("topic", "delete", topic + "x", "--if-exists")


def test_partitions_and_settings_are_altered(moldau: CommandLine) -> None:
    topic = name()
    moldau("topic", "create", topic)
    moldau("topic", "alter", topic, "-p", "3", "-c", "retention.ms=1", "-c", "segment.ms=60000")
    moldau("topic", "alter", topic, "--delete-config", "segment.ms")
    (described,) = moldau("topic", "describe", topic, "--json").json
    assert len(described["partitions"]) == 3
    assert described["configs"] == {"retention.ms": "1"}
    assert "INVALID_PARTITIONS" in moldau("topic", "alter", topic, "-p", "2", code=1).err
    moldau("topic", "alter", topic, code=2)


def test_settings_of_topics(moldau: CommandLine) -> None:
    topic = name()
    moldau("topic", "create", topic)
    moldau(
        "config", "alter", "topic", topic, "retention.ms=7", "--append", "cleanup.policy=compact"
    )
    rows = {row[0]: row[1:] for row in moldau("config", "describe", "topic", topic).rows}
    assert rows["retention.ms"] == ["7", "topic"]
    assert rows["cleanup.policy"][0] == "delete,compact"

    moldau("config", "alter", "topic", topic, "--delete", "retention.ms", "-d", "cleanup.policy")
    every = moldau("config", "describe", "topic", topic, "--all", "--doc", "--json").json
    retention = next(entry for entry in every if entry["name"] == "retention.ms")
    assert (retention["source"], retention["type"]) == ("default", "long")
    assert retention["documentation"]

    one = moldau("config", "describe", "topic", topic, "segment.bytes", "--json").json
    assert [entry["name"] for entry in one] == ["segment.bytes"]


def test_a_wrong_setting_is_named_with_the_closest_one(moldau: CommandLine) -> None:
    topic = name()
    moldau("topic", "create", topic)
    hint = "Did you mean 'retention.ms'?\n"
    assert moldau("config", "alter", "topic", topic, "retention.mss=1", code=1).err.endswith(hint)
    assert moldau("config", "describe", "topic", topic, "retention.mss", code=4).err.endswith(hint)
    wrong = moldau("config", "alter", "topic", topic, "retention.ms=soon", code=1)
    assert "retention.ms" in wrong.err
    assert "INVALID_CONFIG" in wrong.err


def test_settings_of_brokers(moldau: CommandLine, moldau_broker: MoldauProcess) -> None:
    rows = {row[0]: row[1] for row in moldau("config", "describe", "broker", "1").rows}
    assert rows["log.dirs"] == str(moldau_broker.data_dir)
    moldau("config", "describe", "broker", "99", code=4)
    moldau("config", "describe", "broker", "one", code=2)


def test_levels_of_loggers(moldau: CommandLine) -> None:
    def level(logger: str) -> str:
        rows = moldau("config", "describe", "broker-logger", "1", logger).rows
        return str(rows[0][1])

    moldau("config", "alter", "broker-logger", "1", "moldau.net=ERROR")
    assert level("moldau.net.connection") == "ERROR"
    moldau("config", "alter", "broker-logger", "1", "--delete", "moldau.net")
    assert level("moldau.net.connection") == level("root")
    assert (
        "moldau.net"
        in moldau("config", "alter", "broker-logger", "1", "moldu.net=INFO", code=1).err
    )
    moldau("config", "describe", "broker-logger", "default", code=2)


def test_subscriptions_to_client_metrics(moldau: CommandLine) -> None:
    subscription = name()
    moldau("config", "alter", "client-metrics", subscription, "metrics=a,b", "interval.ms=500")
    rows = moldau("config", "describe", "client-metrics").rows
    assert [subscription, "metrics", "a,b", "client metrics"] in rows
    moldau("config", "alter", "client-metrics", subscription, "-d", "metrics", "-d", "interval.ms")
    assert not moldau("config", "describe", "client-metrics").rows


def test_quotas(moldau: CommandLine) -> None:
    user, client = name(), name()
    whose = ("--user", user, "--client", client)
    moldau("quota", "alter", *whose, "producer_byte_rate=1000", "request_percentage=12.5")
    moldau("quota", "alter", "--user", user, "--client-defaults", "consumer_byte_rate=5")
    assert moldau("quota", "describe", *whose).rows == [
        [user, client, "", "producer_byte_rate", "1000"],
        [user, client, "", "request_percentage", "12.5"],
    ]
    defaults = [user, "<default>", "", "consumer_byte_rate", "5"]
    assert defaults in moldau("quota", "describe").rows
    assert moldau("quota", "describe", "--user", user, "--client-defaults", "--json").json == [
        {"entity": {"client-id": None, "user": user}, "quotas": {"consumer_byte_rate": 5.0}}
    ]
    moldau("quota", "alter", *whose, "--delete", "producer_byte_rate", "--dry-run")
    assert len(moldau("quota", "describe", *whose).rows) == 2
    moldau("quota", "alter", *whose, "-d", "producer_byte_rate", "-d", "request_percentage")
    moldau("quota", "alter", "--user", user, "--client-defaults", "-d", "consumer_byte_rate")
    assert moldau("quota", "describe", "--user", user).rows == []


def test_quotas_that_cannot_be(moldau: CommandLine) -> None:
    assert "say whose quotas" in moldau("quota", "alter", "producer_byte_rate=1", code=2).err
    assert "nothing to change" in moldau("quota", "alter", "--user", "u", code=2).err
    moldau("quota", "alter", "--user", "u", "--user-defaults", "producer_byte_rate=1", code=2)
    moldau("quota", "alter", "--user", "u", "producer_byte_rate=much", code=2)
    refused = moldau("quota", "alter", "--ip", "somewhere", "connection_creation_rate=1", code=1)
    assert "somewhere is not a valid IP" in refused.err
    assert (
        "must be greater than 0"
        in moldau("quota", "alter", "--user", "u", "producer_byte_rate=-1", code=1).err
    )


def test_settings_of_all_there_are(moldau: CommandLine) -> None:
    topic, group, setting = name(), name(), "consumer.session.timeout.ms"
    moldau("topic", "create", topic, "--config", "retention.ms=7")
    moldau("config", "alter", "group", group, f"{setting}=50000")
    moldau("config", "alter", "broker", "default", "log.cleaner.backoff.ms=14999")
    try:
        assert [topic, "retention.ms", "7", "topic"] in moldau("config", "describe", "topic").rows
        assert [group, setting, "50000", "group"] in moldau("config", "describe", "group").rows
        changed = ["log.cleaner.backoff.ms", "14999", "cluster default"]
        assert moldau("config", "describe", "broker", "default").rows == [changed]
        brokers = moldau("config", "describe", "broker").rows
        assert ["default", *changed] in brokers
        assert ["1", *changed] in brokers
        document = moldau("config", "describe", "topic", "--all", "--json").json
        (entry,) = [
            one for one in document if (one["topic"], one["name"]) == (topic, "segment.bytes")
        ]
        assert entry["source"] == "default"
    finally:
        moldau("config", "alter", "broker", "default", "--delete", "log.cleaner.backoff.ms")
        moldau("config", "alter", "group", group, "--delete", setting)


def test_settings_of_groups(moldau: CommandLine) -> None:
    group, setting = name(), "consumer.session.timeout.ms"
    moldau("config", "alter", "group", group, f"{setting}=50000")
    assert moldau("config", "describe", "group", group).rows == [[setting, "50000", "group"]]
    (entry,) = moldau("config", "describe", "group", group, setting, "--json").json
    assert [synonym["source"] for synonym in entry["synonyms"]] == ["group", "default"]
    refused = moldau("config", "alter", "group", group, f"{setting}=1", code=1)
    assert "group.consumer.min.session.timeout.ms" in refused.err
    hint = f"Did you mean '{setting}'?\n"
    wrong = moldau("config", "alter", "group", group, "consumer.session.timeout=1", code=1)
    assert wrong.err.endswith(hint)
    moldau("config", "alter", "group", group, "--delete", setting)
    assert moldau("config", "describe", "group", group).rows == []
    moldau("config", "alter", "group", "default", f"{setting}=50000", "--dry-run")


def test_the_cluster_describes_itself(moldau: CommandLine, moldau_broker: MoldauProcess) -> None:
    document = moldau("cluster", "describe", "--json").json
    (broker,) = document["brokers"]
    assert (broker["id"], broker["host"], broker["port"]) == (1, "127.0.0.1", moldau_broker.port)
    assert [d["path"] for d in broker["log_dirs"]] == [str(moldau_broker.data_dir)]
    assert document["partitions"]["offline"] == 0
    assert moldau("cluster", "describe").rows[0][1] == moldau_broker.bootstrap_servers


def test_values_are_produced_and_consumed(moldau: CommandLine) -> None:
    topic = name()
    moldau("topic", "create", topic)
    acknowledged = moldau("produce", topic, "one", "two", "-k", "key", "--json").json_lines
    assert [(a["topic"], a["partition"], a["offset"]) for a in acknowledged] == [
        (topic, 0, 0),
        (topic, 0, 1),
    ]
    moldau("produce", topic, "three", "-H", "a=1", "-H", "b=2", "--timestamp", "1738324800250")
    assert moldau("consume", topic).out == "one\ntwo\nthree\n"
    assert moldau("consume", topic, "-k", "--offsets", "-n", "1").out == "0\t0\tkey\tone\n"
    last = moldau("consume", topic, "-o", "-1", "--timestamps", "--headers").out
    assert last == "2025-01-31T12:00:00.250Z\ta=1,b=2\tthree\n"
    assert moldau("consume", topic, "-o", "1", "--format", "%o=%v").out == "1=two\n2=three\n"
    assert moldau("consume", topic, "--format", "hex", "-n", "1").out == "6f6e65\n"


def test_reading_starts_where_it_is_told(moldau: CommandLine) -> None:
    topic = name()
    moldau("topic", "create", topic, "--config", "retention.ms=-1")
    for hour in range(3):
        moldau("produce", topic, f"at {hour}", "-t", f"2025-01-31T0{hour}:00:00Z")
    moldau("produce", topic, "now")
    read = [
        ([], "at 0 at 1 at 2 now"),
        (["--from-beginning"], "at 0 at 1 at 2 now"),
        (["-o", "earliest"], "at 0 at 1 at 2 now"),
        (["-o", "latest"], ""),
        (["-o", "2"], "at 2 now"),
        (["-o", "-2"], "at 2 now"),
        (["-o", "-100"], "at 0 at 1 at 2 now"),
        (["-o", "100"], ""),
        (["--timestamp", "2025-01-31T00:30:00Z"], "at 1 at 2 now"),
        (["--since", "1h"], "now"),
        (["-n", "2"], "at 0 at 1"),
    ]
    for options, expected in read:
        assert moldau("consume", topic, *options).out.split("\n")[:-1] == (
            expected.replace(" at", ";at").replace(" now", ";now").split(";") if expected else []
        ), options


def test_partitions_can_be_chosen(moldau: CommandLine) -> None:
    topic = name()
    moldau("topic", "create", topic, "-p", "3")
    for partition in ("0", "1", "2"):
        moldau("produce", topic, f"in {partition}", "-p", partition)
    assert moldau("consume", topic, "-p", "1").out == "in 1\n"
    assert sorted(moldau("consume", topic).out.splitlines()) == ["in 0", "in 1", "in 2"]
    assert moldau("consume", topic, "-p", "3", code=4).err == (
        f"moldau: Topic '{topic}' has no partition 3.\n"
    )
    moldau("produce", topic, "x", "-p", "3", code=4)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["1", "all"])
def test_every_codec_and_acknowledgement(moldau: CommandLine, codec: str, acks: str) -> None:
    topic = name()
    moldau("topic", "create", topic)
    moldau("produce", topic, "value " * 100, "second", "-z", codec, "-a", acks)
    assert moldau("consume", topic).out == "value " * 100 + "\nsecond\n"


def test_produce_without_acknowledgement(moldau: CommandLine) -> None:
    topic = name()
    moldau("topic", "create", topic)
    (sent,) = moldau("produce", topic, "fire and forget", "-a", "0", "--json").json_lines
    assert sent["offset"] == -1
    moldau("produce", topic, "x", "--idempotent", "-a", "0", code=2)


def test_a_record_that_is_too_large_is_refused(moldau: CommandLine) -> None:
    topic = name()
    moldau("topic", "create", topic, "-c", "max.message.bytes=1000")
    refused = moldau("produce", topic, "x" * 2000, code=1)
    assert "MESSAGE_TOO_LARGE" in refused.err
    # Many small ones go in even when the client's batch is larger than what the topic takes.
    moldau("produce", topic, *(f"{number:0300}" for number in range(20)))
    assert len(moldau("consume", topic).out.splitlines()) == 20


def test_old_records_are_trimmed(moldau: CommandLine) -> None:
    topic = name()
    moldau("topic", "create", topic)
    moldau("produce", topic, "a", "b", "c")
    assert moldau("topic", "trim", topic, "--before", "2").rows == [[f"{topic}-0", "2"]]
    assert moldau("consume", topic).out == "c\n"
    trimmed = moldau("topic", "trim", topic, "--before", "latest", "--json").json
    assert trimmed == [{"partition": f"{topic}-0", "log_start_offset": 3}]
    assert moldau("consume", topic).out == ""
    moldau("topic", "trim", topic, "--before", "9", code=1)


def test_a_topic_is_created_by_producing_if_asked(moldau: CommandLine) -> None:
    topic = name()
    moldau("produce", topic, "first", "--create")
    assert moldau("consume", topic).out == "first\n"


def test_log_files_are_dumped(
    moldau: CommandLine, moldau_broker: MoldauProcess, tmp_path: Path
) -> None:
    topic = name()
    moldau("topic", "create", topic)
    moldau("produce", topic, "one", "two", "-k", "key", "-H", "a=1", "-z", "zstd")
    directory = moldau_broker.data_dir / f"{topic}-0"

    rows = moldau("log", "dump", str(directory), "--records", "--verify", "--json").json_lines
    (batch,) = [row for row in rows if row["row"] == "batch"]
    assert (batch["base_offset"], batch["records_count"], batch["compression"]) == (0, 2, "zstd")
    assert batch["is_valid"]
    records = [(row["offset"], row["key"], row["value"]) for row in rows if row["row"] == "record"]
    assert records == [(0, "key", "one"), (1, "key", "two")]

    text = moldau("log", "dump", str(directory), "-r").out
    assert "  base_offset: 0 last_offset: 1 records_count: 2 " in text
    assert " key: key value: two headers: a=1 " in text

    segment = tmp_path / f"{0:020}.log"
    damaged = bytearray((directory / segment.name).read_bytes())
    damaged[-1] ^= 1
    segment.write_bytes(damaged)
    result = moldau("log", "dump", str(segment), code=1)
    assert "is_valid: false" in result.out
    assert result.err == (
        f"moldau: {segment}: the batch at position 0 has a wrong CRC.\nmoldau: 1 file is damaged.\n"
    )
    stranger = tmp_path / "stranger"
    stranger.write_text("")
    moldau("log", "dump", str(stranger), code=2)
    moldau("log", "dump", str(tmp_path / "nowhere"), code=2)


def test_bench_measures_and_cleans_up(moldau: CommandLine) -> None:
    produced = moldau("bench", "produce", "-n", "5000", "--batch", "4k", "--json").json
    assert produced["records"] >= 5000
    assert produced["latency_p50_ms"] <= produced["latency_p99_ms"] <= produced["latency_max_ms"]
    fetched = moldau("bench", "fetch", "-n", "5000", "-p", "2", "--json").json
    assert fetched["records"] >= 5000
    assert fetched["bytes"] > 5000 * 100
    assert not [row for row in moldau("topic", "list").rows if row[0].startswith("moldau-bench")]


def test_no_broker_is_said_in_one_sentence(moldau: CommandLine) -> None:
    refused = moldau("topic", "list", "-b", "127.0.0.1:1", code=3)
    assert refused.out == ""
    assert refused.err == (
        "moldau: Cannot connect to 127.0.0.1:1: Connection refused. "
        "Is a broker running there? `moldau up` starts one.\n"
    )
    # Also where a client tries again until its time is over.
    unsent = moldau("mailalert", "send", "-s", "x", "-b", "127.0.0.1:1", "--timeout", "3", code=3)
    assert unsent.err == "moldau: Cannot connect to 127.0.0.1:1: Connection refused.\n"
    # Any broker of the list will do.
    moldau("topic", "list", "-b", f"127.0.0.1:1,{moldau.bootstrap}")


def test_usage_errors_are_one_sentence(moldau: CommandLine) -> None:
    cases = [
        (["topik"], "No such command 'topik'. Did you mean 'topic'? Try 'moldau --help'."),
        (["topic", "list", "--bogus"], "No such option: --bogus. Try 'moldau topic list --help'."),
        (["topic", "list", "-b", "a:b"], "'a:b' is not an address: use host:port"),
        (["consume", "t", "-o", "x"], "'x' is not an offset"),
        (["consume", "t", "--since", "1x"], "'1x' is not a duration"),
        (["consume", "t", "-o", "1", "--since", "1h"], "use one of --from-beginning"),
        (["topic", "create", "t", "-c", "x"], "'x' is not of the form name=value."),
    ]
    for args, said in cases:
        result = moldau(*args, code=2)
        assert result.out == ""
        assert result.err.startswith(f"moldau: {said}")
        assert result.err.count("\n") == 1


def test_version_and_help(moldau: CommandLine) -> None:
    assert moldau("--version").out == f"moldau {__version__}\n"
    help_text = moldau("--help").out
    for command in ("up", "broker", "topic", "config", "produce", "consume", "log", "bench"):
        assert f"\n  {command} " in help_text
    assert "Usage: moldau topic" in moldau("topic", code=2).out


def test_debug_shows_the_traceback(moldau: CommandLine) -> None:
    said = moldau("topic", "describe", name(), "--debug", code=4).err
    assert "Traceback (most recent call last)" in said
    assert "There is no topic" in said

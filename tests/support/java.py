"""Apache Kafka's own command line tools, run from the jars that ``make kafka`` copied."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_POM = ROOT / "tests/java/pom.xml"
KAFKA_VERSION: str = re.findall(r"<kafka.version>(.*)</kafka.version>", _POM.read_text())[0]
JARS = ROOT / ".cache" / f"kafka-{KAFKA_VERSION}"

# A short-lived JVM is mostly start-up: the cheap compiler and collector halve it.
TOOL_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m")
TOOL_TIMEOUT_S = 300.0

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
ELECT_LEADERS = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN_PARTITIONS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
MESSAGE_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
STORAGE = "kafka.tools.StorageTool"


def available() -> bool:
    return (JARS / ".complete").exists()


def java_command(
    main: str, *, flags: Sequence[str] = TOOL_FLAGS, log_level: str = "error"
) -> list[str]:
    """The command line of a JVM with Kafka on its class path."""
    if not available():
        raise RuntimeError(f"{JARS} is not complete: run `make kafka`")
    return [
        "java",
        *flags,
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
        "-Dlog4j2.disable.jmx=true",
        "-cp",
        f"{JARS}/*",
        main,
    ]


def run_tool(main: str, *args: str, stdin: bytes = b"") -> bytes:
    """Runs one of Kafka's tools and returns what it printed; a failure shows its output."""
    done = subprocess.run(
        [*java_command(main), *args],
        input=stdin,
        capture_output=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        output = (done.stdout + done.stderr).decode(errors="replace")
        raise RuntimeError(f"{main} {' '.join(args)} ended with {done.returncode}:\n{output}")
    return done.stdout

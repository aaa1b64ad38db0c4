"""Runs Kafka's published tests, unchanged, in JVMs whose clusters are Moldau processes.

Each class has a JVM of its own, which ``java/runner`` drives. For Moldau, ``java/moldau`` comes
before Kafka's jars on the class path and replaces the three classes that start brokers.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.kafka_suite.selection import Selection
from tests.support.java import KAFKA_VERSION, ROOT

SOURCES = Path(__file__).parent / "java"
JARS = ROOT / ".cache" / f"kafka-suite-{KAFKA_VERSION}"
WORK = ROOT / ".cache/kafka-suite"
"""Compiled classes, and what each class printed in its last run."""

# What Kafka's build opens of the JDK for its tests: the KDC of those with Kerberos reads it again.
OPENED = "java.security.jgss/sun.security.krb5"
EXTENSIONS = "META-INF/services/org.junit.jupiter.api.extension.Extension"
CONDITIONS = "moldau.suite.OneForm\nmoldau.suite.NamesOnly\n"
MOST_ROUNDS = 30


@dataclass(frozen=True)
class Result:
    """How one test ended.

    ``outcome`` is pass, fail, skipped, no-broker (it never started one), needs-<kind> (it wants
    what is not there, see kinds.toml), fold-pass and fold-fail in a rehearsal on one broker, or
    named, where nothing was to run.
    """

    test: str
    outcome: str
    seconds: float = 0.0
    message: str = ""

    @property
    def passed(self) -> bool:
        return self.outcome in ("pass", "fold-pass")


@dataclass(frozen=True)
class Options:
    """What to run on, and with what."""

    control: bool = False
    """On Apache Kafka itself, which proves the test."""
    names: bool = False
    """Run nothing: only find out which tests there are, in which forms."""
    fold: bool = False
    """A rehearsal: one broker for tests that want several."""
    security: bool = False
    """Start brokers that are to have TLS, logins or authorizers."""
    one_broker: bool = False
    """Start none for tests that want several: for sorting tests into lists."""
    zookeeper: str | None = None
    """Several brokers find each other here, and not by a coordination process of Moldau."""
    jobs: int = 1
    retries: int = 0
    """How often a test that fails is tried again, alone, as in Kafka's own builds: some wait for a
    time and not for a condition, which a busy machine does not bear."""
    class_timeout_s: float = 900.0
    test_timeout_s: int = 180
    broker_output: bool = False
    log_level: str = "error"

    @property
    def target(self) -> str:
        return "kafka" if self.control else "moldau"

    def java_flags(self) -> list[str]:
        # Kafka's brokers live in the JVM of the test, Moldau's do not.
        flags = ["-Xmx1g" if self.control else "-Xmx512m", "-XX:+UseSerialGC"]
        flags.append(f"--add-opens={OPENED}=ALL-UNNAMED")
        properties = {
            "suite.test.timeout.s": self.test_timeout_s,
            "suite.names": str(self.names).lower(),
            "suite.moldau": Path(sys.executable).parent / "moldau",
            "suite.fold": str(self.fold).lower(),
            "suite.one.broker": str(self.one_broker).lower(),
            "suite.security": str(self.security).lower(),
            "suite.broker.output": str(self.broker_output).lower(),
            "suite.log.level": self.log_level,
            "log4j2.configurationFile": SOURCES / "log4j2.properties",
        }
        if self.zookeeper:
            properties["suite.zookeeper"] = self.zookeeper
        return flags + [f"-D{name}={value}" for name, value in properties.items()]


Progress = Callable[[str, Sequence[Result]], None]


def run(selection: Selection, options: Options, progress: Progress | None = None) -> list[Result]:
    """Runs the tests and returns a result for each, also for those that did not even start."""
    results = _run_once(selection, options, progress)
    for _ in range(options.retries):
        results = retried(results, options, progress)
    return results


def retried(
    results: Sequence[Result], options: Options, progress: Progress | None = None
) -> list[Result]:
    """The results, with those of failed tests replaced by what another attempt comes to."""
    failed = frozenset(result.test for result in results if result.outcome == "fail")
    again = _run_once(Selection(tests=failed), replace(options, jobs=1), progress)
    passed = {
        result.test: replace(result, message="not at the first attempt")
        for result in again
        if result.passed
    }
    return [passed.get(result.test, result) for result in results]


def _run_once(selection: Selection, options: Options, progress: Progress | None) -> list[Result]:
    class_path = _class_path(options)
    results: list[Result] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        classes = selection.classes()
        runs = pool.map(lambda name: _run_class(name, selection, options, class_path), classes)
        for class_name, found in zip(classes, runs, strict=True):
            if progress is not None:
                progress(class_name, found)
            results.extend(found)
    names = {result.test for result in results}
    results.extend(
        Result(name, "fail", message="there is no such test, or it did not run")
        for name in sorted(selection.tests - names)
    )
    return results


def _run_class(
    class_name: str, selection: Selection, options: Options, class_path: str
) -> list[Result]:
    logs = WORK / "logs" / options.target
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        directory = Path(name)
        rows = directory / "results.tsv"
        rows.touch()
        flags = [*options.java_flags(), f"-Djava.io.tmpdir={directory}"]
        methods = selection.methods(class_name)
        arguments = ["moldau.suite.SuiteRunner", str(rows), class_name, *methods]
        command = ["java", *flags, "-cp", class_path, *arguments]
        with (logs / f"{class_name}.log").open("wb") as log:
            # A tool under test may end the process: then another goes on behind that test.
            for _ in range(MOST_ROUNDS):
                before = rows.stat().st_size
                with _process_group(command, log.fileno(), directory) as process:
                    try:
                        code = process.wait(options.class_timeout_s)
                    except subprocess.TimeoutExpired:
                        code = -1
                if code <= 0 or rows.stat().st_size == before:
                    break
        ending = "took too long" if code < 0 else f"ended with {code}"
        results = parse_results(rows.read_text(), f"the JVM {ending} before the test did")
    if not results:
        return [Result(class_name, "fail", message=f"nothing ran; the JVM {ending}")]
    return [result for result in results if result.test in selection]


@contextlib.contextmanager
def _process_group(
    command: Sequence[str], output: int, directory: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process, which has this directory for its own; whatever it started is ended with it."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=directory,
        env={**os.environ, "TMPDIR": str(directory)},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def parse_results(text: str, cut_off: str) -> list[Result]:
    """Results from the runner's lines; a test that has begun and not ended was cut off."""
    results: list[Result] = []
    open_tests: list[str] = []
    for line in text.splitlines():
        test, outcome, ms, message = line.split("\t", 3)
        if outcome == "started":
            open_tests.append(test)
            continue
        results.append(Result(test, outcome, int(ms) / 1000, message))
        plain, _, run_number = test.rpartition("~")
        name = plain if run_number.isdigit() else test
        if name in open_tests:  # one of a class that never began was not started
            open_tests.remove(name)
    return results + [Result(test, "fail", message=cut_off) for test in open_tests]


def write_results(path: Path, results: Iterable[Result]) -> None:
    """Writes a line per test: name, outcome, seconds, message."""
    rows = ((r.test, r.outcome, f"{r.seconds:.3f}", r.message) for r in results)
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


def read_results(path: Path) -> dict[str, Result]:
    rows = (line.split("\t", 3) for line in path.read_text().splitlines())
    return {
        test: Result(test, outcome, float(seconds), text) for test, outcome, seconds, text in rows
    }


def require_jars() -> None:
    if not (JARS / ".complete").exists():
        raise RuntimeError(f"{JARS} is not complete: run `make kafka-suite-jars`")


def _class_path(options: Options) -> str:
    require_jars()
    runner = _compile("runner", [SOURCES / "runner"])
    (runner / EXTENSIONS).parent.mkdir(parents=True, exist_ok=True)
    (runner / EXTENSIONS).write_text(CONDITIONS)
    parts = [str(runner), f"{JARS}/*"]
    if not options.control:
        parts.insert(0, str(_compile("moldau", [SOURCES / "runner", SOURCES / "moldau"])))
    return ":".join(parts)


def _compile(name: str, folders: Sequence[Path]) -> Path:
    """Compiles Java sources unless that has been done, and returns where the classes are."""
    files = sorted(path for folder in folders for path in folder.rglob("*.java"))
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]
    target = WORK / "classes" / f"{name}-{digest}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(dir=target.parent, suffix=".new"))
    flags = ["-nowarn", "-proc:none", "-cp", f"{JARS}/*", "-d", str(building)]
    subprocess.run(["javac", *flags, *map(str, files)], check=True)
    try:
        building.rename(target)
    except OSError:  # another run was faster
        shutil.rmtree(building)
    return target

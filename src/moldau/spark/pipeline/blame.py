"""The data source's complaints in the words of the file: it knows options, users know keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from moldau.spark.pipeline.problems import Kind
from moldau.spark.pipeline.spec import ChangesSource, Part, Pipeline, TopicSink, TopicSource
from moldau.toml_places import Path

SOURCE_OPTIONS: Final = {
    "starting_offsets": "startingOffsets",
    "ending_offsets": "endingOffsets",
    "key_format": "key.format",
    "key_schema": "key.schema",
    "value_format": "value.format",
    "value_schema": "value.schema",
    "schema_registry": "schema.registry.url",
    "headers": "includeHeaders",
    "max_offsets_per_trigger": "maxOffsetsPerTrigger",
    "min_partitions": "minPartitions",
    "fail_on_data_loss": "failOnDataLoss",
    "dead_letter_topic": "deadLetterTopic",
    "on_bad_record": "onBadRecord",
    "bootstrap_servers": "kafka.bootstrap.servers",
    "group_id": "kafka.group.id",
}
"""Options of the data source by the keys that stand for them."""

CHANGES_OPTIONS: Final = {
    "changes": "dbtable",
    "database": "url",
    "mode": "mode",
    "column": "column",
    "keys": "keys",
    "lag": "lag",
    "poll": "poll",
    "snapshot": "snapshot",
    "slot": "slot",
    "publication": "publication",
    "max_rows_per_trigger": "maxRowsPerTrigger",
}
"""The same of ``format("moldau_changes")``, whose complaints say "option" before each."""

SINK_OPTIONS: Final = {
    "exactly_once": "exactlyOnce",
    "bootstrap_servers": "kafka.bootstrap.servers",
}

_SAYS_SETTING: Final = "An option kafka.* is wrong: "
_SETTINGS: Final = {"bootstrap_servers": "bootstrap.servers", "group_id": "group.id"}
_KINDS: Final[Mapping[str, Kind]] = {
    "UnknownTopicError": "missing",
    "UNKNOWN_TOPIC_OR_PARTITION": "missing",
    "NoBrokersError": "unreachable",
    "ConnectionLostError": "unreachable",
    "BROKER_NOT_AVAILABLE": "unreachable",
    "TimedOutError": "late",
    "REQUEST_TIMED_OUT": "late",
}
_OPTION: Final = re.compile(r"\b[Oo]ption (\w+)")
_SQL_LINE: Final = re.compile(r";? ?\(?line (\d+),? pos(?:ition)? \d+\)?")


def in_keys(
    message: str, options: Mapping[str, str], has_option: Callable[[str], bool]
) -> tuple[str, str | None]:
    """The message with keys for options, and the first of these keys.

    ``has_option``: whether the file itself has an option by that name, in ``options``.
    """
    said, blamed, first = message, None, len(message)
    setting = message.startswith(_SAYS_SETTING)
    if setting:
        said, options = message.removeprefix(_SAYS_SETTING), _SETTINGS
    for key, option in sorted(options.items(), key=lambda pair: -len(pair[1])):
        if has_option(f"kafka.{option}" if setting else option):
            continue
        pattern = re.compile(rf"(?:\b(?:the )?[Oo]ptions? )?(?<![\w.]){re.escape(option)}(?![\w.])")
        found = pattern.search(said)
        if found is not None:
            if found.start() < first:
                blamed, first = key, found.start()
            said = pattern.sub(key, said)
    if setting and blamed is None:
        return message, None
    return said, blamed


def in_keys_of_changes(message: str) -> tuple[str, str | None]:
    """The same for a source of changes, whose options have names that may mean anything else."""
    keys = {option.lower(): key for key, option in CHANGES_OPTIONS.items()}
    blamed: list[str] = []

    def key_for(found: re.Match[str]) -> str:
        key = keys.get(found[1].lower())
        if key is None:
            return found[0]
        blamed.append(key)
        return key

    return _OPTION.sub(key_for, message), blamed[0] if blamed else None


def kind_of(text: str) -> Kind:
    """From a traceback: what kept the data source from working, for the exit code."""
    last = text.rpartition("Traceback (most recent call last):")[2]
    return next((kind for word, kind in _KINDS.items() if word in last), "wrong")


def place_of(pipeline: Pipeline, part: Part, message: str) -> tuple[str, str]:
    """``FILE:LINE`` of what a failure of a part is about, and the failure in the file's words.

    A sink's failure may be one of the sources that it reads: all of them are looked at.
    """
    said, path = message, part.place
    for one in (part, *pipeline.sources, *pipeline.sinks):
        if isinstance(one, ChangesSource):
            said, blamed = in_keys_of_changes(message)
            if blamed is not None:
                path = pipeline.declared(one, blamed)
                break
        options = SOURCE_OPTIONS if isinstance(one, TopicSource) else SINK_OPTIONS
        if not isinstance(one, (TopicSource, TopicSink)):
            continue
        place = one.place

        def has_option(name: str, place: Path = place) -> bool:
            return pipeline.lines.has((*place, "options", name))

        said, blamed = in_keys(message, options, has_option)
        if blamed is not None:
            path = pipeline.declared(one, blamed)
            break
    line = pipeline.lines.of(path)
    for key in ("sql", "window"):
        found = _SQL_LINE.search(said)
        if found is not None and path == part.place and pipeline.lines.has((*path, key)):
            line = pipeline.lines.inside((*path, key), int(found[1]))
            said = _SQL_LINE.sub("", said, count=1)
    return f"{pipeline.file}:{line}", said

"""Typed columns: whole columns at once, and the bad values among the good ones."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.client.conftest import NewTopicFactory
from tests.spark.records import consume, produce
from tests.support.target import Target

from moldau.client.listener.headers import read_failure
from moldau.spark.decode.avro_column import avro_decoder, avro_type
from moldau.spark.decode.columns import decode_column
from moldau.spark.decode.formats import decode_strings
from moldau.spark.decode.json_column import json_decoder
from moldau.spark.decode.registry import RegistryError
from moldau.spark.options import Decoding, OptionError

USER_1 = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}
USER_2 = {
    "type": "record",
    "name": "User",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "level", "type": "int", "default": 7},
    ],
}
EVERYTHING = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "other", "type": ["null", "Kind"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "wide", "type": ["int", "long"]},
    ],
}


def framed(schema: Any, value: Any, number: int = 1) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


JSON_TYPE = pa.struct([("id", pa.int64()), ("name", pa.string()), ("at", pa.date32())])


@given(
    st.lists(
        st.none()
        | st.fixed_dictionaries(
            {"id": st.integers(-(2**62), 2**62)}, optional={"name": st.text(), "more": st.text()}
        )
    )
)
def test_json_columns_are_what_their_rows_are(rows: list[dict[str, Any] | None]) -> None:
    values = [None if row is None else json.dumps(row, indent=1).encode() for row in rows]
    bad: dict[int, str] = {}
    column = decode_column(values, json_decoder(JSON_TYPE), bad, "value") if values else []
    names = ("id", "name", "at")
    assert list(column.to_pylist() if values else []) == [
        None if row is None else {name: row.get(name) for name in names} for row in rows
    ]
    assert not bad


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_bad_values_are_found_and_shift_nothing(good: list[bool]) -> None:
    nasty = [b"", b"{}{}", b'{"id":"x"}', b"[1]", b'}\n{"value":{}', b'{"name":"\xff"}', b"nul"]
    values = [
        b'{"id":%d,"at":"2026-01-02"}' % index if fine else nasty[index % len(nasty)]
        for index, fine in enumerate(good)
    ]
    bad: dict[int, str] = {}
    column = decode_column(values, json_decoder(JSON_TYPE), bad, "value")
    assert sorted(bad) == [index for index, fine in enumerate(good) if not fine]
    day = date(2026, 1, 2)
    assert column.to_pylist() == [
        {"id": index, "name": None, "at": day} if fine else None for index, fine in enumerate(good)
    ]


def test_strings_must_be_utf_8() -> None:
    bad: dict[int, str] = {}
    column = decode_column([b"a", b"\xff", None, "ü".encode()], decode_strings, bad, "key")
    assert column.to_pylist() == ["a", None, None, "ü"]
    assert list(bad) == [1]


def test_avro_types_become_spark_types() -> None:
    decoding = Decoding("avro", json.dumps(EVERYTHING))
    assert avro_type(decoding, None) == (
        "STRUCT<`flag`: BOOLEAN, `when`: TIMESTAMP, `day`: DATE, `price`: DECIMAL(9,2), "
        "`id`: STRING, `kind`: STRING, `other`: STRING, `tags`: ARRAY<STRING>, "
        "`counts`: MAP<STRING, BIGINT>, `wide`: BIGINT>"
    )
    kind = pa.struct(
        [
            ("flag", pa.bool_()),
            ("when", pa.timestamp("us", "UTC")),
            ("day", pa.date32()),
            ("price", pa.decimal128(9, 2)),
            ("id", pa.string()),
            ("kind", pa.string()),
            ("other", pa.string()),
            ("tags", pa.list_(pa.string())),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("wide", pa.int64()),
        ]
    )
    row = {
        "flag": True,
        "when": datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "price": Decimal("12.50"),
        "id": "00000000-0000-0000-0000-000000000001",
        "kind": "A",
        "other": "B",
        "tags": ["x", "y"],
        "counts": {"a": 1},
        "wide": 2**40,
    }
    decode = avro_decoder(decoding, None, kind)
    found = decode([framed(EVERYTHING, row), None]).to_pylist()
    assert found == [{**row, "counts": [("a", 1)]}, None]
    bad: dict[int, str] = {}
    values = [b"plain", framed(EVERYTHING, row) + b"more", framed(EVERYTHING, row)[:-3]]
    assert decode_column(values, decode, bad, "value").null_count == 3
    assert "do not begin" in bad[0]
    assert "there is more" in bad[1]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "no Avro schema"),
        ('["int","string"]', "union of INT, STRING"),
        (
            '{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]}]}',
            "refers to itself",
        ),
    ],
)
def test_avro_schemas_without_a_spark_type_are_refused(schema: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        avro_type(Decoding("avro", schema), None)


@pytest.fixture
def registry() -> Iterator[tuple[str, dict[str, Any]]]:
    """A registry's address, and its answers by path: a double, there is no other in reach."""
    answers: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path)
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", answers
        server.shutdown()
        thread.join()


def test_records_are_read_with_the_schema_they_were_written_with(
    registry: tuple[str, dict[str, Any]],
    cluster: Target,
    new_topic: NewTopicFactory,
    spark: SparkSession,
) -> None:
    url, answers = registry
    topic, dead = new_topic(), new_topic()
    answers["/schemas/ids/1"] = {"schema": json.dumps(USER_1)}
    answers["/schemas/ids/2"] = {"schema": json.dumps(USER_2)}
    answers[f"/subjects/{topic}-value/versions/latest"] = {"schema": json.dumps(USER_2), "id": 2}
    values = [
        framed(USER_1, {"id": 1}, 1),
        framed(USER_2, {"id": 2, "name": "two", "level": 1}, 2),
        b"bad",
        framed(USER_1, {"id": 3}, 9),
        None,
    ]
    produce(cluster.bootstrap, topic, [{"value": value, "key": b"k"} for value in values])
    rows = spark.read.format("moldau").options(
        **{
            "kafka.bootstrap.servers": cluster.bootstrap,
            "subscribe": topic,
            "value.format": "avro",
            "schema.registry.url": url,
            "key.format": "string",
            "deadLetterTopic": dead,
        }
    )
    found = rows.load().select("offset", "key", "value.*").collect()
    assert sorted(tuple(row) for row in found) == [
        (0, "k", 1, None, 7),
        (1, "k", 2, "two", 1),
        (4, "k", None, None, None),
    ]
    letters = consume(cluster.bootstrap, dead, 1)
    assert [(row.key, row.value) for row in letters] == [(b"k", values[2]), (b"k", values[3])]
    failures = [read_failure(row.headers) for row in letters]
    assert [one and (one.source.topic, one.source.offset) for one in failures] == [
        (topic, 2),
        (topic, 3),
    ]
    assert "no schema 9" in (failures[1].message if failures[1] else "")


def test_schemas_refer_to_others(registry: tuple[str, dict[str, Any]]) -> None:
    url, answers = registry
    fixed = {"type": "fixed", "name": "F", "size": 2}
    outer = {"type": "record", "name": "R", "fields": [{"name": "f", "type": "F"}]}
    answers["/subjects/other/versions/1"] = {"schema": json.dumps(fixed)}
    answers["/subjects/s/versions/latest"] = answers["/schemas/ids/5"] = {
        "schema": json.dumps(outer),
        "references": [{"name": "F", "subject": "other", "version": 1}],
    }
    decoding = Decoding("avro", None, None, url)
    assert avro_type(decoding, "s") == "STRUCT<`f`: BINARY>"
    decode = avro_decoder(decoding, "s", pa.struct([("f", pa.binary())]))
    assert decode([b"\0\0\0\0\5xy"]).to_pylist() == [{"f": b"xy"}]


def test_a_registry_that_cannot_help_is_an_error(registry: tuple[str, dict[str, Any]]) -> None:
    url, answers = registry
    with pytest.raises(RegistryError, match="no subject s"):
        avro_type(Decoding("avro", None, None, url), "s")
    answers["/subjects/t/versions/latest"] = {
        "schema": "{}",
        "references": [{"name": "F", "subject": "missing", "version": 1}],
    }
    with pytest.raises(RegistryError, match="lacks missing"):
        avro_type(Decoding("avro", None, None, url), "t")
    with pytest.raises(RegistryError, match="cannot be asked"):
        avro_type(Decoding("avro", None, None, "http://127.0.0.1:1"), "s")


def test_json_that_cannot_be_read_raises_or_is_null(
    cluster: Target, new_topic: NewTopicFactory, batch: Any
) -> None:
    topic = new_topic()
    produce(cluster.bootstrap, topic, [{"value": b'{"id":1}'}, {"value": b"{"}])
    options = {"subscribe": topic, "value.format": "json", "value.schema": "id BIGINT, x STRING"}
    frame = batch(cluster, onBadRecord="null", **options)
    assert [row["value"] and row["value"].asDict() for row in frame.collect()] == [
        {"id": 1, "x": None},
        None,
    ]
    with pytest.raises(Exception, match=r"offset 1 of .* cannot be decoded: value: JSON parse"):
        batch(cluster, **options).collect()

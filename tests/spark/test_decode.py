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
from pyspark.sql.types import StructType
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
from moldau.spark.schema import arrow_schema

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
    decoder = json_decoder(JSON_TYPE)
    column = decode_column(values, decoder, bad, "value").to_pylist() if values else []
    names = ("id", "name", "at")
    assert column == [
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


PLAIN = (
    "d DECIMAL(9,2), t TIMESTAMP, day DATE, i INT, y TINYINT, f DOUBLE, s STRING, o BOOLEAN, "
    "a ARRAY<STRUCT<x: ARRAY<BIGINT>, y: DATE>>, n STRUCT<i: INT, d: DECIMAL(38,10)>"
)
MORE = f"{PLAIN}, b BINARY, l TIMESTAMP_NTZ, m MAP<STRING, STRUCT<z: DATE>>, p MAP<STRING, STRING>"
JSON_VALUES = {
    "d": ['"1.5"', "1.5", "12345678.91", "1", "1.235", "1.2349", "-0.005", "1e3", '"x"', "null"],
    "t": [
        '"2026-01-02T03:04:05Z"', '"2026-01-02T03:04:05.123456Z"', '"2026-01-02 03:04:05"',
        '"2026-01-02T03:04:05+02:00"', '"2026-01-02T03:04:05.1234567Z"', "1767323045", "-1",
        '"2026-01-02"', '"2026"', '"2026-1-2 3:4:5"', '"2026-01-02T03:04:05 Europe/Berlin"',
        '"soon"', '"2026-13-01"', "true",
    ],
    "day": ['"2026-01-02"', '"2026-1-2"', '"2026-01-02T03:04:05Z"', '"2026-02-30"', '"x"', "true"],
    "i": ["1", "-5", "1.0", "3000000000", '"1"', "true", "[1]"],
    "y": ["127", "-128"],
    "f": ["1", "1.5e3", '"NaN"', "NaN", '"-Infinity"', '"1.5"', "true"],
    "s": ['"x"', '"\\u00fc\\n"', "1", '{"a":1}', "[1,2]", "true", "1.5", '""'],
    "o": ["true", "false", '"true"', "1"],
    "a": ['[{"x":[1,2],"y":"2026-01-02"},{"x":null}]', "[]", '[{"x":[]}]', "[null]", "5"],
    "n": ['{"i":1,"d":12345.678901234567}', "{}", '{"more":1,"d":"7"}', '{"i":"x"}', "[]"],
    "b": ['"eHg="', '""', '"!"', "5"],
    "l": ['"2026-01-02T03:04:05"', '"2026-01-02 03:04:05.5"', '"2026-01-02T03:04:05Z"', "5"],
    "m": ['{"a":{"z":"2026-01-02"},"b":null}', "{}", '{"a":{}}', "[]", '{"a":{"z":"x"}}'],
    "p": ['{"a":"b","c":1,"d":null}'],
}  # fmt: skip


def struct_type(schema: str) -> StructType:
    fields = StructType.fromDDL(schema)
    assert isinstance(fields, StructType)
    return fields


@pytest.mark.parametrize("schema", [PLAIN, MORE], ids=["by Arrow", "value by value"])
def test_json_is_read_as_from_json_reads_it(spark: SparkSession, schema: str) -> None:
    """What cannot be read is null there, and bad here."""
    fields = struct_type(schema)
    values = [
        f'{{"{name}": {text}}}'
        for name, texts in JSON_VALUES.items()
        if name in fields.names
        for text in texts
    ]
    bad: dict[int, str] = {}
    kind = pa.struct(list(arrow_schema(fields)))
    ours = decode_column([value.encode() for value in values], json_decoder(kind), bad, "value")
    table = pa.table({"number": range(len(values)), "text": values, "ours": ours})
    columns = f"number BIGINT, text STRING, ours STRUCT<{schema}>"
    rows = spark.createDataFrame(table, columns).selectExpr(
        "number", "to_json(ours) AS ours", f"to_json(from_json(text, '{schema}')) AS theirs"
    )
    for row in rows.collect():
        value = values[row.number]
        if row.number in bad:
            assert row.theirs is None or len(row.theirs) < len(value), value
        else:
            assert row.ours == row.theirs, value
    assert 20 <= len(bad) < len(values) / 2


def test_what_no_column_takes_is_bad_and_nothing_worse() -> None:
    bad: dict[int, str] = {}
    values = [rb'{"s":"\ud800"}', b"[" * 100_000, b'{"i":' + b"9" * 5000 + b"}", b'{"s":"fine"}']
    kind = pa.struct(
        [("s", pa.string()), ("i", pa.int64()), ("m", pa.map_(pa.string(), pa.int8()))]
    )
    column = decode_column(values, json_decoder(kind), bad, "value")
    assert column.to_pylist()[3] == {"s": "fine", "i": None, "m": None}
    assert sorted(bad) == [0, 1, 2]


def test_the_reason_names_the_field() -> None:
    kind = pa.struct([("id", pa.int64()), ("paid", pa.struct([("sum", pa.decimal128(10, 2))]))])
    bad: dict[int, str] = {}
    values = [b'{"id": 1, "paid": {"sum": "18,50"}}', b'{"id": "A-7"}', b"7"]
    decode_column(values, json_decoder(kind), bad, "value")
    assert bad == {
        0: 'value: paid: sum: "18,50" is no decimal(10,2)',
        1: 'value: id: "A-7" is no bigint',
        2: "value: 7 is no struct<id:bigint,paid:struct<sum:decimal(10,2)>>",
    }


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
        ('["null"]', "union of nothing but null"),
        (
            '{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]}]}',
            "refers to itself",
        ),
    ],
)
def test_avro_schemas_without_a_spark_type_are_refused(schema: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        avro_type(Decoding("avro", schema), None)


UNIONS = {
    "type": "record",
    "name": "Unions",
    "namespace": "x.y",
    "fields": [
        {"name": "a", "type": ["null", "int", "string", {"type": "array", "items": "Leaf"}]},
        {"name": "b", "type": ["string", "Kind", "Leaf", {"type": "map", "values": "long"}]},
        {"name": "c", "type": {"type": "array", "items": ["long", "null", "double", "bytes"]}},
        {
            "name": "d",
            "type": [
                {"type": "long", "logicalType": "timestamp-micros"},
                {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 8},
                {"type": "int", "logicalType": "date"},
            ],
        },
        {"name": "e", "type": "Kind"},
        {"name": "f", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
    ],
}  # Kind and Leaf are put where they are used first.
KIND = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
LEAF = {"type": "record", "name": "Leaf", "fields": [{"name": "q", "type": "int"}]}
UNIONS["fields"][0]["type"][3]["items"] = LEAF  # type: ignore[index]
UNIONS["fields"][1]["type"][1] = KIND  # type: ignore[index]
UNIONS_TYPE = (
    "STRUCT<`a`: STRUCT<`member0`: INT, `member1`: STRING, `member2`: ARRAY<STRUCT<`q`: INT>>>, "
    "`b`: STRUCT<`member0`: STRING, `member1`: STRING, `member2`: STRUCT<`q`: INT>, "
    "`member3`: MAP<STRING, BIGINT>>, "
    "`c`: ARRAY<STRUCT<`member0`: BIGINT, `member1`: DOUBLE, `member2`: BINARY>>, "
    "`d`: STRUCT<`member0`: TIMESTAMP, `member1`: DECIMAL(8,0), `member2`: DATE>, "
    "`e`: STRING, `f`: TIMESTAMP_NTZ>"
)


@pytest.mark.usefixtures("spark")  # which reads DDL
def test_unions_of_several_types_are_structs_of_their_members() -> None:
    """As Spark's from_avro has it."""
    decoding = Decoding("avro", json.dumps(UNIONS))
    assert avro_type(decoding, None) == UNIONS_TYPE
    [field] = arrow_schema(struct_type(f"value {UNIONS_TYPE}"))
    moment, day = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), date(2026, 1, 2)
    local = datetime(2026, 1, 2, 3, 4)  # noqa: DTZ001
    rows: list[dict[str, Any]] = [
        {"a": None, "b": "A", "c": [1, None, 1.5, b"x"], "d": moment, "e": "B"},
        {"a": 7, "b": ("x.y.Kind", "A"), "c": [], "d": Decimal(12), "e": "A"},
        {"a": [{"q": 1}], "b": ("x.y.Leaf", {"q": 2}), "c": [None], "d": day, "e": "A"},
        {"a": "seven", "b": {"k": 3}, "c": [2**40], "d": moment, "e": "A"},
    ]
    values = [framed(UNIONS, {**row, "f": local}) for row in rows]
    found = avro_decoder(decoding, None, field.type)(values).to_pylist()

    def chosen(value: Any) -> Any:
        """Without the members that are not the one."""
        if isinstance(value, dict):
            return {name: chosen(one) for name, one in value.items() if one is not None}
        return [chosen(one) for one in value] if isinstance(value, list) else value

    assert {row.pop("f") for row in found} == {local}
    assert [chosen(row) for row in found] == [
        {
            "b": {"member0": "A"},
            "c": [{"member0": 1}, None, {"member1": 1.5}, {"member2": b"x"}],
            "d": {"member0": moment},
            "e": "B",
        },
        {"a": {"member0": 7}, "b": {"member1": "A"}, "c": [], "d": {"member1": 12}, "e": "A"},
        {
            "a": {"member2": [{"q": 1}]},
            "b": {"member2": {"q": 2}},
            "c": [None],
            "d": {"member2": day},
            "e": "A",
        },
        {
            "a": {"member1": "seven"},
            "b": {"member3": [("k", 3)]},
            "c": [{"member0": 2**40}],
            "d": {"member0": moment},
            "e": "A",
        },
    ]


@pytest.mark.usefixtures("spark")
def test_unions_may_grow_and_change_their_order(registry: tuple[str, dict[str, Any]]) -> None:
    url, answers = registry

    def schema(kind: Any) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [{"name": "u", "type": kind}]}

    written: list[tuple[Any, Any]] = [
        (["int", "string"], 5),
        (["int", "string"], "five"),
        ("string", "six"),
        (["null", "string"], "seven"),
        (["null", "string"], None),
        (["null", "string", "int", "boolean"], True),
    ]
    values = []
    for number, (kind, value) in enumerate(written):
        answers[f"/schemas/ids/{number}"] = {"schema": json.dumps(schema(kind))}
        values.append(framed(schema(kind), {"u": value}, number))
    newest = {"schema": json.dumps(schema(written[-1][0]))}
    answers["/subjects/s/versions/latest"] = newest
    decoding = Decoding("avro", None, None, url)
    [field] = arrow_schema(struct_type(f"value {avro_type(decoding, 's')}"))
    bad: dict[int, str] = {}
    found = decode_column(values, avro_decoder(decoding, "s", field.type), bad, "value")
    assert not bad
    unions = [row["u"] and tuple(row["u"].values()) for row in found.to_pylist()]
    assert unions == [
        (None, 5, None),
        ("five", None, None),
        ("six", None, None),
        ("seven", None, None),
        None,
        (None, None, True),
    ]


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

"""The declared schemas beside Kafka's own, field by field and version by version.

Each line of the data file is a field of a version, printed by ``tests/java/RecordSchemas.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from moldau.wire.declaring import declared_version, newest_declared
from moldau.wire.schema import FieldSpec, fields_of, is_flexible
from moldau.wire.stored import group_records, metadata_records, transaction_records

LINES = (Path(__file__).parent / "data" / "kafka_4_3_1_schemas.txt").read_text().splitlines()
OURS = {
    name: shape
    for module in (group_records, metadata_records, transaction_records)
    for name, shape in vars(module).items()
    if isinstance(shape, type)
}
JAVA_NAMES = {"bool": "boolean"}
KAFKAS = {name: sorted(lines) for name, lines in groupby(LINES, lambda line: line.split()[0])}


def described(place: str, version: type) -> Iterator[str]:
    if is_flexible(version):
        yield place + "flexible"
    for spec in fields_of(version):
        yield from described_field(place + spec.name + ("[]" if spec.is_array else ""), spec)


def described_field(place: str, spec: FieldSpec) -> Iterator[str]:
    kind = "struct" if spec.entity is not None else JAVA_NAMES.get(spec.kind, spec.kind)
    # A UUID that may be missing is zero on the wire, not null.
    nullable = " nullable" if spec.nullable and (spec.is_array or spec.kind != "uuid") else ""
    yield place + f" {kind}" + nullable + ("" if spec.tag is None else f" tag {spec.tag}")
    if spec.entity is not None:
        yield from described(place + ".", spec.entity)


@pytest.mark.parametrize("name", KAFKAS)
def test_every_version_has_the_fields_of_kafkas(name: str) -> None:
    shape = OURS[name]
    versions = range(newest_declared(shape) + 1)
    ours = [
        line
        for version in versions
        for line in described(f"{name} {version} ", declared_version(shape, version))
        if not line.endswith(f" tag {transaction_records.OWN_TAG}")
    ]
    assert sorted(ours) == KAFKAS[name]


@pytest.mark.parametrize("name", KAFKAS)
def test_fields_come_in_the_order_of_kafkas(name: str) -> None:
    shape = OURS[name]
    for version in range(newest_declared(shape) + 1):
        place = f"{name} {version} "
        ours = [
            line
            for line in described(place, declared_version(shape, version))
            if " tag " not in line and not line.endswith("flexible")
        ]
        assert ours == [line for line in LINES if line in ours and line.startswith(place)]

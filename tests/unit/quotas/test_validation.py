"""What may be set, and what may be asked for: the answers of Kafka's controller and image."""

from __future__ import annotations

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.quotas.entity import ClientQuotaEntity
from moldau.quotas.filter import ClientQuotaFilter, ClientQuotaFilterComponent, MatchType
from moldau.quotas.validation import check_address, check_entity, check_quota

USER: dict[str, str | None] = {"user": "u"}
ADDRESS: dict[str, str | None] = {"ip": "10.0.0.1"}


@pytest.mark.parametrize(
    "entries",
    [
        {"user": "u"},
        {"user": None},
        {"client-id": "<default>"},
        {"user": None, "client-id": "c"},
        {"user": "a user/with..signs", "client-id": None},
        {"ip": None},
        {"ip": "1.2.3.4"},
        {"ip": "::1"},
    ],
)
def test_entities_that_can_have_quotas(entries: dict[str, str | None]) -> None:
    check_entity(ClientQuotaEntity.of(entries))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"": "name"}, "Unhandled client quota entity type: "),
        ({"group": "g"}, "Unhandled client quota entity type: group"),
        ({"user": ""}, "Empty user not supported"),
        ({"user": "u", "client-id": ""}, "Empty client-id not supported"),
        ({"user": "u", "ip": "1.2.3.4"}, "Invalid quota entity combination"),
        ({"client-id": None, "ip": None}, "Invalid quota entity combination"),
    ],
)
def test_entities_that_cannot(entries: dict[str, str | None], message: str) -> None:
    with pytest.raises(KafkaError, match=message) as refusal:
        check_entity(ClientQuotaEntity.of(entries))
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["not a host", "host.example"])
def test_an_address_that_is_none(name: str) -> None:
    entity = ClientQuotaEntity.of({"ip": name})
    check_entity(entity)  # it may have been stored by Kafka
    with pytest.raises(KafkaError, match=f"{name} is not a valid IP or resolvable host."):
        check_address(entity)


@pytest.mark.parametrize("entries", [{"user": "u"}, {"ip": None}, {"ip": "::1"}])
def test_an_address_that_is_one(entries: dict[str, str | None]) -> None:
    check_address(ClientQuotaEntity.of(entries))


@pytest.mark.parametrize(
    ("entries", "key", "value"),
    [
        (USER, "producer_byte_rate", 1.0),
        (USER, "consumer_byte_rate", float(2**63 - 1)),
        (USER, "consumer_byte_rate", 4.9999999),
        (USER, "consumer_byte_rate", 5.0000001),
        (USER, "request_percentage", 0.001),
        (USER, "controller_mutation_rate", 2.5),
        (ADDRESS, "connection_creation_rate", 2.0**31 - 1),
    ],
)
def test_quotas_that_can_be_set(entries: dict[str, str | None], key: str, value: float) -> None:
    check_quota(ClientQuotaEntity.of(entries), key, value)


@pytest.mark.parametrize(
    ("entries", "key", "value", "message"),
    [
        (USER, "bad", 1.0, "Invalid configuration key bad"),
        (USER, "connection_creation_rate", 1.0, "Invalid configuration key"),
        (ADDRESS, "producer_byte_rate", 1.0, "Invalid configuration key"),
        (USER, "request_percentage", 0.0, "Quota request_percentage must be greater than 0"),
        (USER, "request_percentage", float("nan"), "Quota request_percentage must be greater"),
        (USER, "request_percentage", float("inf"), "Proposed value for request_percentage is too"),
        (USER, "producer_byte_rate", -1.0, "Quota producer_byte_rate must be greater than 0"),
        (USER, "producer_byte_rate", 10000.5, "producer_byte_rate cannot be a fractional value."),
        (USER, "producer_byte_rate", 1e19, "Proposed value for producer_byte_rate is too large fo"),
        (ADDRESS, "connection_creation_rate", 2.0**31, ".* is too large for an INT."),
        (ADDRESS, "connection_creation_rate", 1.5, ".* cannot be a fractional value."),
    ],
)
def test_quotas_that_cannot(
    entries: dict[str, str | None], key: str, value: float, message: str
) -> None:
    with pytest.raises(KafkaError, match=message) as refusal:
        check_quota(ClientQuotaEntity.of(entries), key, value)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


EXACT, DEFAULT, SPECIFIED = MatchType.EXACT, MatchType.DEFAULT, MatchType.SPECIFIED
ENTITIES = [
    ClientQuotaEntity.of(entries)
    for entries in (
        {"user": "u"},
        {"user": None},
        {"user": "u", "client-id": "c"},
        {"user": "u", "client-id": None},
        {"client-id": "c"},
        {"ip": "1.2.3.4"},
    )
]


@pytest.mark.parametrize(
    ("components", "strict", "matched"),
    [
        ([], False, [0, 1, 2, 3, 4, 5]),
        ([], True, []),
        ([("user", EXACT, "u")], False, [0, 2, 3]),
        ([("user", EXACT, "u")], True, [0]),
        ([("user", DEFAULT, None)], True, [1]),
        ([("user", SPECIFIED, None)], False, [0, 1, 2, 3]),
        ([("user", SPECIFIED, None)], True, [0, 1]),
        ([("client-id", SPECIFIED, None)], True, [4]),
        ([("user", EXACT, "u"), ("client-id", DEFAULT, None)], True, [3]),
        ([("user", EXACT, "v")], False, []),
        ([("ip", SPECIFIED, None)], False, [5]),
        ([("ip", EXACT, "::ffff:1.2.3.4")], True, [5]),
    ],
)
def test_a_filter_matches_as_kafkas(
    components: list[tuple[str, int, str | None]], strict: bool, matched: list[int]
) -> None:
    wanted = ClientQuotaFilter([ClientQuotaFilterComponent(*one) for one in components], strict)
    matches = wanted.matcher()
    assert [number for number, entity in enumerate(ENTITIES) if matches(entity)] == matched


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([("", EXACT, "x")], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_EXACT, but set match"),
        ([("user", DEFAULT, "x")], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_DEFAULT, but also"),
        ([("user", SPECIFIED, "x")], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_SPECIFIED, but also"),
        ([("user", 9, None)], ErrorCode.INVALID_REQUEST, "Unknown match type 9"),
        (
            [("user", EXACT, "x"), ("user", DEFAULT, None)],
            ErrorCode.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("group", EXACT, "x")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
        ([("group", EXACT, None)], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
        (
            [("ip", SPECIFIED, None), ("user", SPECIFIED, None)],
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination.",
        ),
    ],
)
def test_a_filter_without_sense_is_refused(
    components: list[tuple[str, int, str | None]], code: ErrorCode, message: str
) -> None:
    wanted = ClientQuotaFilter([ClientQuotaFilterComponent(*one) for one in components])
    with pytest.raises(KafkaError, match=message) as refusal:
        wanted.matcher()
    assert refusal.value.code is code

"""Whose quota holds, and who shares it."""

from __future__ import annotations

from itertools import product

import pytest

from moldau.quotas.entity import CLIENT_ID, IP, USER, ClientQuotaEntity, canonical_address
from moldau.quotas.manager import FEW_CLIENTS, MOST_BYTES, ClientQuotaManager, address_levels
from moldau.quotas.meters import Rate, TokenBucket, Window

KEY = "producer_byte_rate"
WINDOW = Window(11, 1000)
ME = ("me", "my-app")
MOST_SPECIFIC_FIRST: list[dict[str, str | None]] = [
    {USER: "me", CLIENT_ID: "my-app"},
    {USER: "me", CLIENT_ID: None},
    {USER: "me"},
    {USER: None, CLIENT_ID: "my-app"},
    {USER: None, CLIENT_ID: None},
    {USER: None},
    {CLIENT_ID: "my-app"},
    {CLIENT_ID: None},
]


def manager() -> ClientQuotaManager[Rate]:
    return ClientQuotaManager(KEY, Rate, WINDOW)


def give(to: ClientQuotaManager[Rate], entries: dict[str, str | None], quota: float | None) -> None:
    to.update(ClientQuotaEntity.of(entries), {} if quota is None else {KEY: quota})


def test_the_most_specific_quota_holds() -> None:
    quotas = manager()
    for rank, entries in reversed(list(enumerate(MOST_SPECIFIC_FIRST, 1))):
        give(quotas, entries, rank)
        assert quotas.quota(ME, 0) == rank
    for rank, entries in enumerate(MOST_SPECIFIC_FIRST, 1):
        assert quotas.quota(ME, 0) == rank
        give(quotas, entries, None)
    assert quotas.quota(ME, 0) is None
    assert not quotas.is_active


def test_other_keys_and_other_clients_do_not_count() -> None:
    quotas = manager()
    entity = ClientQuotaEntity.of({USER: "me"})
    quotas.update(entity, {"consumer_byte_rate": 1})
    assert not quotas.is_active
    give(quotas, {USER: "me"}, 1)
    assert quotas.quota(("you", "my-app"), 0) is None
    assert quotas.record(("you", "my-app"), 10**9, 0) == 0


@pytest.mark.parametrize(
    ("entries", "shared_with"),
    [
        ({USER: "me", CLIENT_ID: "my-app"}, set()),
        ({USER: "me", CLIENT_ID: None}, set()),
        ({USER: "me"}, {("me", "other")}),
        ({USER: None, CLIENT_ID: "my-app"}, set()),
        ({USER: None, CLIENT_ID: None}, set()),
        ({USER: None}, {("me", "other")}),
        ({CLIENT_ID: "my-app"}, {("you", "my-app")}),
        ({CLIENT_ID: None}, {("you", "my-app")}),
    ],
)
def test_a_quota_is_shared_by_those_it_does_not_tell_apart(
    entries: dict[str, str | None], shared_with: set[tuple[str, str]]
) -> None:
    quotas = manager()
    give(quotas, entries, 100)
    assert quotas.record(ME, 10_000, 0) > 0
    others = set(product(("me", "you"), ("my-app", "other"))) - {ME}
    assert {other for other in others if quotas.throttle_ms(other, 0)} == shared_with


def test_what_was_used_counts_when_the_quota_changes() -> None:
    quotas = manager()
    give(quotas, {USER: "me"}, 1000)
    assert quotas.record(ME, 10_000, 0) == 0
    give(quotas, {USER: "me"}, 500)
    assert quotas.throttle_ms(ME, 0) == 10_000


def test_what_fits_into_the_window() -> None:
    quotas = manager()
    assert quotas.max_in_window(ME, 0) is None
    give(quotas, {CLIENT_ID: "my-app"}, 7)
    assert quotas.max_in_window(ME, 0) == 70


def test_clients_that_come_and_go_leave_nothing_behind() -> None:
    quotas = manager()
    give(quotas, {CLIENT_ID: None}, 1000)
    for number in range(5 * FEW_CLIENTS):
        quotas.record(("me", f"client-{number}"), 1, number * 1000)
    assert len(quotas._meters) <= FEW_CLIENTS + WINDOW.samples
    assert len(quotas._shares) <= FEW_CLIENTS


def test_clients_that_come_and_go_leave_nothing_behind_when_quotas_change() -> None:
    quotas = manager()
    for change in range(20):
        give(quotas, {CLIENT_ID: None}, 1000 + change)
        for number in range(change * 900, (change + 1) * 900):
            quotas.record(("me", f"client-{number}"), 1, number * 1000)
    assert len(quotas._meters) <= FEW_CLIENTS + WINDOW.samples


def test_clients_with_long_names_that_come_all_at_once_are_bounded() -> None:
    quotas = manager()
    give(quotas, {CLIENT_ID: None}, 1000)
    for number in range(2_000):
        quotas.record(("me", f"{number}" + "c" * 32_000), 1, 0)
        names = {sharers[1] for sharers in quotas._meters} | {c[1] for c in quotas._shares}
        if number % 100 == 0:
            assert sum(len(name or "") for name in names) <= MOST_BYTES + 32_010
    assert quotas._bytes >= sum(len(sharers[1] or "") for sharers in quotas._meters)
    assert quotas.record(("me", "c" * 32_000), 10**9, 0) > 0, "quotas hold all the same"


def test_a_client_in_debt_is_not_forgotten() -> None:
    quotas = ClientQuotaManager("controller_mutation_rate", TokenBucket, WINDOW)
    quotas.update(ClientQuotaEntity.of({CLIENT_ID: None}), {"controller_mutation_rate": 1})
    quotas.record(ME, 10_000, 0)
    for number in range(2 * FEW_CLIENTS):
        quotas.record(("me", f"client-{number}"), 1, 60_000 + number)
    assert quotas.throttle_ms(ME, 62_000) > 9_000_000


def test_addresses_have_quotas_of_their_own_or_the_default() -> None:
    quotas = ClientQuotaManager("connection_creation_rate", Rate, WINDOW, address_levels)
    quotas.update(ClientQuotaEntity.of({IP: None}), {"connection_creation_rate": 5})
    quotas.update(ClientQuotaEntity.of({IP: "10.0.0.1"}), {"connection_creation_rate": 9})
    assert quotas.quota(("10.0.0.1",), 0) == 9
    assert quotas.quota(("10.0.0.2",), 0) == 5


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("client-1", "client-1"),
    ],
)
def test_an_address_has_one_spelling(spelling: str, canonical: str) -> None:
    assert canonical_address(spelling) == canonical

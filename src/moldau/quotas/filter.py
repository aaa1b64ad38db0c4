"""Which entities a description is about, as Kafka's ``ClientQuotasImage`` decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import NamedTuple

from moldau.errors import ErrorCode, KafkaError, invalid_request
from moldau.quotas.entity import CLIENT_ID, IP, USER, ClientQuotaEntity, canonical_entity


class MatchType(IntEnum):
    """How a component of a filter matches."""

    EXACT = 0
    """The entity of this name."""
    DEFAULT = 1
    """The default entity."""
    SPECIFIED = 2
    """Any entity of this type, the default one included."""


class ClientQuotaFilterComponent(NamedTuple):
    entity_type: str
    match_type: int
    match: str | None = None


class ClientQuotaFilter(NamedTuple):
    components: Iterable[ClientQuotaFilterComponent] = ()
    strict: bool = False
    """Entities with types that no component names do not match."""

    def matcher(self) -> Callable[[ClientQuotaEntity], bool]:
        """Returns the test of an entity; raises INVALID_REQUEST, or UNSUPPORTED_VERSION for a type
        from the future, where the filter makes no sense.
        """
        exact: dict[str, str | None] = {}
        of_type: set[str] = set()
        for component in self.components:
            kind = component.entity_type
            if kind in exact or kind in of_type:
                raise invalid_request(
                    f"Entity type {kind} cannot appear more than once in the filter."
                )
            _check(component)
            if component.match_type == MatchType.SPECIFIED:
                of_type.add(kind)
            else:
                exact[kind] = component.match
        types = exact.keys() | of_type
        wanted = canonical_entity(ClientQuotaEntity.of(exact)).as_dict().items()
        if IP in types and len(types) > 1:
            raise invalid_request(
                "Invalid entity filter component combination. IP filter component should not be "
                "used with user or clientId filter component."
            )

        def matches(entity: ClientQuotaEntity) -> bool:
            entries = canonical_entity(entity).as_dict()
            return (
                types == entries.keys() if self.strict else types <= entries.keys()
            ) and wanted <= entries.items()

        return matches


def _check(component: ClientQuotaFilterComponent) -> None:
    if not component.entity_type:
        raise invalid_request("Invalid empty entity type.")
    if component.entity_type not in (USER, CLIENT_ID, IP):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}"
        )
    try:
        kind = MatchType(component.match_type)
    except ValueError:
        raise invalid_request(f"Unknown match type {component.match_type}") from None
    if kind is MatchType.EXACT and component.match is None:
        raise invalid_request("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if kind is not MatchType.EXACT and component.match is not None:
        raise invalid_request(
            f"Request specified MATCH_TYPE_{kind.name}, but also specified a match string."
        )

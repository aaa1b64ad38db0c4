"""Settings of groups by raw requests."""

from __future__ import annotations

from typing import Any

from tests.support.raw import RawClient
from tests.support.requests import request

CLIENT_METRICS, GROUP = 16, 32
SET, DELETE = 0, 1


class GroupConfigs:
    """Asks and changes over one connection."""

    def __init__(self, bootstrap: str) -> None:
        self._client = RawClient(bootstrap)

    def close(self) -> None:
        self._client.close()

    def call(self, api: str, version: int, **fields: Any) -> Any:
        return self._client.call(request(api, version, **fields))

    def describe(self, group: str, *names: str) -> dict[str, Any]:
        resource = {"resource_type": GROUP, "resource_name": group}
        answer = self.call(
            "describe_configs",
            4,
            resources=[{**resource, "configuration_keys": list(names) or None}],
            include_synonyms=True,
        )
        (result,) = answer.results
        assert result.error_code.name == "none", result.error_message
        return {entry.name: entry for entry in result.configs}

    def change(
        self,
        group: str,
        *changes: tuple[str, int, str | None],
        kind: int = GROUP,
        dry: bool = False,
    ) -> str:
        configs = [
            {"name": name, "config_operation": operation, "value": value}
            for name, operation, value in changes
        ]
        resource = {"resource_type": kind, "resource_name": group, "configs": configs}
        answer = self.call("incremental_alter_configs", 1, resources=[resource], validate_only=dry)
        return str(answer.responses[0].error_code.name.upper())

    def replace(self, group: str, **settings: str) -> str:
        configs = [{"name": name, "value": value} for name, value in settings.items()]
        resource = {"resource_type": GROUP, "resource_name": group, "configs": configs}
        answer = self.call("alter_configs", 2, resources=[resource], validate_only=False)
        return str(answer.responses[0].error_code.name.upper())

    def listed(self, kind: int = GROUP) -> set[str]:
        answer = self.call("list_config_resources", 1, resource_types=[kind])
        assert answer.error_code.name == "none"
        return {resource.resource_name for resource in answer.config_resources}

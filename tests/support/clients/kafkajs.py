"""kafkajs, through tests/node/agent.js. Its consumer always joins a group, so it does not read."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.agent import AgentClient
from tests.support.clients.base import Sample

NODE_DIR = Path(__file__).resolve().parents[2] / "node"


class KafkaJs(AgentClient):
    name = "kafkajs"
    codecs = ("none", "gzip", "snappy")

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, ["node", str(NODE_DIR / "agent.js"), bootstrap])

    @classmethod
    def version(cls) -> str:
        package = json.loads((NODE_DIR / "node_modules/kafkajs/package.json").read_text())
        return str(package["version"])

    def can_write(self, sample: Sample) -> bool:
        # Headers are an object there: no null, and names that repeat stand together.
        return all(value is not None for _, value in sample.headers)

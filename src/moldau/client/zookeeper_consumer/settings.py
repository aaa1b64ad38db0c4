"""Settings of the ZooKeeper consumer: the old high-level consumer's names and defaults."""

from __future__ import annotations

from typing import Final, Literal

from moldau.client.settings import CommonSettings
from moldau.config.declare import boolean, integer, optional_string, string
from moldau.config.option import REQUIRED
from moldau.config.validators import OneOf

_RESETS: Final[dict[str, Literal["earliest", "latest"]]] = {
    "smallest": "earliest",
    "earliest": "earliest",
    "largest": "latest",
    "latest": "latest",
}


class ZooKeeperConsumerSettings(CommonSettings):
    """``ZooKeeperConsumer`` and ``AsyncZooKeeperConsumer``."""

    auto_commit_enable = boolean(True, "Store the offsets of polled records now and then.")
    auto_commit_interval_ms = integer(
        60_000, "How often that happens, besides every rebalance.", at_least=1
    )
    auto_offset_reset = string(
        "largest",
        "Where to start in a partition without a stored offset, or when it is out of range: "
        "smallest (the first record) or largest (the end).",
        allowed=OneOf(*_RESETS),
    )
    consumer_id = optional_string("A name of this consumer, instead of one that is made up.")
    fetch_message_max_bytes = integer(
        1_048_576, "Most bytes of a partition in one answer.", at_least=1
    )
    fetch_min_bytes = integer(1, "A broker answers a fetch when so much is there.", at_least=0)
    fetch_wait_max_ms = integer(
        100, "How long a broker waits for fetch.min.bytes to be there.", at_least=0
    )
    group_id = string(REQUIRED, "the group that shares the partitions and the stored offsets.")
    rebalance_backoff_ms = integer(
        2000, "How long to wait for partitions that others have not given up yet.", at_least=0
    )
    rebalance_max_retries = integer(
        4, "How often to wait so, before poll() says that the rebalance failed.", at_least=0
    )
    zookeeper_connect = string(REQUIRED, "the ensemble, as host:port,host:port/chroot.")
    zookeeper_connection_timeout_ms = integer(
        6000, "How long to try to reach the ensemble.", at_least=1
    )
    zookeeper_session_timeout_ms = integer(
        6000, "How long the group waits for a consumer that is not heard of.", at_least=1
    )

    @property
    def reset(self) -> Literal["earliest", "latest"]:
        return _RESETS[self.auto_offset_reset]

"""Options: what one Fetch request may read."""

from __future__ import annotations

from moldau.config.declare import integer
from moldau.config.option import Options


class FetchOptions(Options):
    """Limits on what one Fetch request may read."""

    title = "Fetching"

    fetch_max_bytes = integer(
        57_671_680,
        "The most that one Fetch answer holds, whatever the client asks for. One batch is always "
        "sent, so that a reader never gets stuck on a big one.",
        at_least=1024,
    )
    max_incremental_fetch_session_cache_slots = integer(
        1000,
        "How many incremental fetch sessions the broker remembers; 0 turns them off.",
        at_least=0,
    )
    fetch_purgatory_purge_interval_requests = integer(
        1000,
        "How often Kafka sweeps finished fetches out of its waiting room. Ours leave it by "
        "themselves.",
        inert=True,
    )
    producer_purgatory_purge_interval_requests = integer(
        1000,
        "How often Kafka sweeps finished produce requests out of its waiting room. Ours leave it "
        "by themselves.",
        inert=True,
    )
    delete_records_purgatory_purge_interval_requests = integer(
        1,
        "How often Kafka sweeps finished DeleteRecords requests out of its waiting room. Ours "
        "leave it by themselves.",
        inert=True,
    )

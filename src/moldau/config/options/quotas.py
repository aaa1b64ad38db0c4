"""Options: how the rates of client quotas are measured."""

from __future__ import annotations

from moldau.config.declare import integer
from moldau.config.option import Options


class QuotaOptions(Options):
    """Quotas themselves are no settings of the broker: they are set while it runs, for users,
    clients and addresses.
    """

    title = "Quotas"

    quota_window_num = integer(
        11, "How many samples the rate of a client is measured over.", at_least=1
    )
    quota_window_size_seconds = integer(1, "How long each of these samples is.", at_least=1)
    controller_quota_window_num = integer(
        11,
        "How many samples of `controller_mutation_rate` a client may use up at once.",
        at_least=1,
    )
    controller_quota_window_size_seconds = integer(
        1, "How long each of these samples is.", at_least=1
    )

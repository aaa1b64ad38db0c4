"""What a broker has as long as it is the controller in charge."""

from __future__ import annotations

from typing import NamedTuple

from moldau.controller.active import ActiveController
from moldau.controller.client_quotas import ClientQuotaAdmin
from moldau.controller.config_admin import ConfigAdmin
from moldau.controller.leader_elections import LeaderElections
from moldau.controller.reassignments import Reassignments
from moldau.controller.topic_admin import TopicAdmin
from moldau.controller.topic_deletion import TopicDeletion


class Office(NamedTuple):
    """Its duties, by what they are about."""

    active: ActiveController
    topics: TopicAdmin
    deletion: TopicDeletion
    configs: ConfigAdmin
    elections: LeaderElections
    reassignments: Reassignments
    client_quotas: ClientQuotaAdmin

"""UpdateFeatures (key 57, versions 0-2): other levels of the cluster's features (KIP-584).

Behaviour: no features are supported (ApiVersions advertises none), so none can get another level:
INVALID_UPDATE_VERSION in the words of Kafka for a feature that it does not know.
Known deviations: Kafka's features (``metadata.version`` and so on) are among those not known.
"""

from __future__ import annotations

from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from moldau.broker.request import Request
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.make import make

UPGRADE_TYPES = (1, 2, 3)
"""Upgrade, safe downgrade, unsafe downgrade."""


def handle(request: Request[UpdateFeaturesRequest]) -> UpdateFeaturesResponse:
    for update in request.body.feature_updates:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            "The update failed for all features since the following feature had an error: Invalid "
            f"update version {update.max_version_level} for feature {update.feature}. "
            f"{_reason(update, request.broker.metadata.controller_id)}",
        )
    return make(UpdateFeaturesResponse, error_code=ErrorCode.NONE, error_message=None)


def _reason(update: FeatureUpdateKey, controller_id: int) -> str:
    if update.upgrade_type not in UPGRADE_TYPES:
        return "The controller does not support the given upgrade type."
    if update.max_version_level < 0:
        return "A feature version cannot be less than 0."
    if update.max_version_level == 0:
        return f"Feature {update.feature} not found."
    return f"Local controller {controller_id} does not support this feature."


def error_answer(
    _request: Request[UpdateFeaturesRequest], error: KafkaError
) -> UpdateFeaturesResponse:
    return make(UpdateFeaturesResponse, error_code=error.code, error_message=error.message)

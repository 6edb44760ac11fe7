"""UpdateFeatures (KIP-584, KIP-778): changes the finalized levels of features.

All updates of a request are made, or none. A level may be raised by an upgrade and lowered by a downgrade, safe or
unsafe, within the range that this broker and every registered one support; `metadata.version` is never lowered, since
that may lose metadata.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.image.image import FeaturesImage, MetadataImage
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import FeatureLevelRecord

METADATA_VERSION: Final = "metadata.version"
_UNKNOWN: Final = (0, 0)
_RESULTS_UNTIL: Final = 1


class UpgradeType(IntEnum):
    """The kind of an update, numbered as in the request."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    context: DecisionContext, request: UpdateFeaturesRequest, api_version: int
) -> tuple[list[Message], UpdateFeaturesResponse]:
    """Decide on a request as a whole. Nothing is written for validate_only.

    Up to version 1 the response lists each feature, and version 0 has no downgrades, as in Kafka.
    """
    updates = {update.feature: update for update in request.feature_updates}
    try:
        for update in updates.values():
            _check(context.image.features, update)
            _check_brokers(context.image, update)
    except RefusedError as refused:
        return [], UpdateFeaturesResponse(error_code=refused.code, error_message=refused.message)
    records: list[Message] = [
        FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level) for update in updates.values()
    ]
    named = request.feature_updates if api_version <= _RESULTS_UNTIL else ()
    results = tuple(
        UpdatableFeatureResult(feature=update.feature, error_message=ErrorCode.NONE.name) for update in named
    )
    return [] if request.validate_only else records, UpdateFeaturesResponse(error_message=None, results=results)


def _check(features: FeaturesImage, update: FeatureUpdateKey) -> None:
    name, level = update.feature, update.max_version_level
    if update.upgrade_type not in tuple(UpgradeType):
        raise _invalid(update, f"there is no upgrade type {update.upgrade_type}")
    lowest, highest = features.supported.get(name, _UNKNOWN)
    if not lowest <= level <= highest:
        raise _invalid(update, _range_of(features.supported, name))
    current = features.finalized.get(name, 0)
    if level < current and update.upgrade_type == UpgradeType.UPGRADE:
        raise _invalid(update, f"its level is {current}, and this is no downgrade")
    if level > current and update.upgrade_type != UpgradeType.UPGRADE:
        raise _invalid(update, f"its level is {current}, and this is no upgrade")
    if level < current and name == METADATA_VERSION:
        raise _invalid(update, f"its level is {current}, and a downgrade might lose metadata")
    if name not in features.supported:
        raise _invalid(update, _range_of(features.supported, name))


def _check_brokers(image: MetadataImage, update: FeatureUpdateKey) -> None:
    """Refuse a level that a registered broker does not support, even a fenced one, since it may come back."""
    for broker in image.brokers.values():
        lowest, highest = broker.features.get(update.feature, _UNKNOWN)
        if broker.features and not lowest <= update.max_version_level <= highest:
            raise _invalid(update, f"broker {broker.id} supports levels {lowest} to {highest}")


def _range_of(supported: Mapping[str, tuple[int, int]], name: str) -> str:
    if name not in supported:
        return "this broker does not know it"
    return "this broker supports levels {} to {}".format(*supported[name])


def _invalid(update: FeatureUpdateKey, why: str) -> RefusedError:
    message = f"Nothing was updated: {update.feature} cannot be set to level {update.max_version_level}: {why}."
    return RefusedError(ErrorCode.INVALID_UPDATE_VERSION, message)

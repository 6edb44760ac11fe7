"""What the logs act on: one value for all topics with the same settings, and a new one when any of them changes."""

from dataclasses import replace

import pytest

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.gateway.config import load_config
from odradek.gateway.metadata.settings import ALL_BROKERS, MAX_LOG_CONFIGS, LiveSettings


@pytest.fixture
def settings():
    return LiveSettings(load_config(environ={}))


def image(**topics):
    """An image in which topics have these settings."""
    return replace(MetadataImage(), configs={(int(ResourceType.TOPIC), name): set_ for name, set_ in topics.items()})


def test_topics_with_the_same_settings_share_them(settings):
    known = image(a={"retention.ms": "7"}, b={"retention.ms": "7"}, c={"retention.ms": "8"})
    a, b, c, d, e = (settings.log_config(known, name) for name in "abcde")
    assert a is b
    assert d is e
    assert [each.retention_ms for each in (a, c, d)] == [7, 8, 604_800_000]


def test_a_changed_setting_is_seen_at_once(settings):
    before = settings.log_config(image(a={"retention.ms": "7"}), "a")
    assert settings.log_config(image(a={"retention.ms": "8"}), "a").retention_ms == 8
    assert settings.log_config(image(a={"retention.ms": "7"}), "a") is before


def test_so_is_a_brokers(settings):
    key = (int(ResourceType.BROKER), ALL_BROKERS)
    changed = replace(MetadataImage(), configs={key: {"log.retention.ms": "9"}})
    assert settings.log_config(changed, "a").retention_ms == 604_800_000, "before it is published"
    settings.publish(changed)
    assert settings.log_config(changed, "a").retention_ms == 9
    settings.publish(MetadataImage())
    assert settings.log_config(changed, "a").retention_ms == 604_800_000


def test_no_more_are_kept_than_so_many(settings):
    for number in range(3 * MAX_LOG_CONFIGS):
        settings.log_config(image(a={"retention.ms": str(number)}), "a")
    assert len(settings._log_configs) <= MAX_LOG_CONFIGS

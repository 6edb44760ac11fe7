"""Settings of logs: one value for all topics with the same settings, and a new one when any of them changes."""

from dataclasses import replace
from uuid import UUID

import pytest

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.image.replay import replay
from odradek.gateway.config import load_config
from odradek.gateway.metadata.settings import ALL_BROKERS, MAX_LOG_CONFIGS, LiveSettings
from odradek.wire.stored.metadata_records import ConfigRecord, TopicRecord


@pytest.fixture
def settings():
    return LiveSettings(load_config(environ={}))


def image(**topics):
    """An image whose topics have these settings."""
    return replace(MetadataImage(), configs={(int(ResourceType.TOPIC), name): set_ for name, set_ in topics.items()})


def broker_setting(before, value, name="log.retention.ms"):
    """A delta that changes a setting of all brokers."""
    delta = MetadataDelta(before)
    record = ConfigRecord(resource_type=ResourceType.BROKER, resource_name=ALL_BROKERS, name=name, value=value)
    replay(delta, record, before.offset + 1, 1)
    return delta


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
    delta = broker_setting(MetadataImage(), "9")
    changed = delta.apply()
    assert settings.log_config(changed, "a").retention_ms == 604_800_000, "before it is published"
    settings.on_published(delta, changed)
    assert settings.log_config(changed, "a").retention_ms == 9
    delta = broker_setting(changed, None)
    settings.on_published(delta, delta.apply())
    assert settings.log_config(changed, "a").retention_ms == 604_800_000


def test_topics_are_changed_by_their_own_settings_and_by_a_brokers(settings):
    delta = MetadataDelta()
    for number, name in enumerate("ab"):
        replay(delta, TopicRecord(name=name, topic_id=UUID(int=number)), number, 1)
    assert settings.changed_topics(delta, delta.apply()) == [], "of a new topic nothing has been in use"
    image = delta.apply()
    own = MetadataDelta(image)
    for name in ("b", "unknown"):
        resource = ResourceType.TOPIC
        replay(own, ConfigRecord(resource_type=resource, resource_name=name, name="retention.ms", value="1"), 2, 1)
    assert settings.changed_topics(own, own.apply()) == ["b"]
    everywhere = broker_setting(image, "9")
    assert settings.changed_topics(everywhere, everywhere.apply()) == ["a", "b"]


def test_no_more_are_kept_than_so_many(settings):
    """Lookups from the newest on: whatever is still cached is the identical object."""

    def config_of(number):
        return settings.log_config(image(a={"retention.ms": str(number)}), "a")

    made = [config_of(number) for number in range(3 * MAX_LOG_CONFIGS)]
    kept = sum(config_of(number) is made[number] for number in reversed(range(len(made))))
    assert 0 < kept <= MAX_LOG_CONFIGS


@pytest.mark.parametrize("text", ["nonsense", "10.0.0.1:" + "9" * 5000, "10.0.0.1:2147483648"])
def test_an_invalid_setting_in_the_metadata_is_logged_and_changes_nothing(settings, caplog, text):
    """The broker starts with it all the same: a client of an earlier version could write it."""
    delta = broker_setting(MetadataImage(), text, "max.connections.per.ip.overrides")
    before = settings.config
    settings.on_published(delta, delta.apply())
    assert settings.config is before
    assert "max.connections.per.ip.overrides" in caplog.text


def test_a_leader_uses_the_clusters_min_insync_replicas_not_its_nodes_own(caplog):
    """The controller decides by it which replicas are eligible leaders (KIP-966)."""
    settings = LiveSettings(load_config(overrides={"min.insync.replicas": "2"}, environ={}))
    delta = broker_setting(MetadataImage(), "1", "min.insync.replicas")
    image = delta.apply()
    settings.on_published(delta, image)
    assert settings.log_config(image, "a").min_insync_replicas == 1
    other = broker_setting(image, "9")
    settings.on_published(other, other.apply())
    assert caplog.text.count("min.insync.replicas=1 is used, not this node's own 2") == 1


def test_a_stored_number_of_cleaner_threads_above_the_limit_is_applied_up_to_it(settings):
    delta = broker_setting(MetadataImage(), "2147483647", "log.cleaner.threads")
    settings.on_published(delta, delta.apply())
    assert settings.config.cleaner_threads == 1000
    assert settings.config.layers.values["log.cleaner.threads"] == 2147483647

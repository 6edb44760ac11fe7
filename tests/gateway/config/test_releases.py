"""The table of releases: known figures, what is cut, features."""

import pytest

from odradek.coordinator.metadata.image.image import FeaturesImage
from odradek.gateway.config import ConfigError, load_config
from odradek.gateway.config.releases import release_named
from odradek.wire.api_keys import ADVERTISED, KAFKA_VERSIONS, ApiKey
from odradek.wire.releases import FEATURES, RELEASES, VERSIONS


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_serves_nothing_that_we_do_not(name):
    served = release_named(name).served
    assert ApiKey.IMPORT_BATCHES not in served
    for key, (low, high) in served.items():
        assert ADVERTISED[key][0] <= low <= high <= ADVERTISED[key][1]
    assert {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.JOIN_GROUP} <= served.keys()


@pytest.mark.parametrize(
    ("name", "key", "versions"),
    [
        ("0.11", ApiKey.PRODUCE, (0, 3)),
        ("1.0", ApiKey.FETCH, (4, 6)),
        ("2.0", ApiKey.METADATA, (0, 6)),
        ("2.3", ApiKey.API_VERSIONS, (0, 2)),
        ("2.4", ApiKey.API_VERSIONS, (0, 3)),
        ("2.8", ApiKey.FETCH, (4, 12)),
        ("3.1", ApiKey.FETCH, (4, 13)),
        ("3.9", ApiKey.PRODUCE, (0, 11)),
        ("4.0", ApiKey.FETCH, (4, 17)),
        ("4.4", ApiKey.FETCH, (4, 18)),
    ],
)
def test_ranges(name, key, versions):
    assert release_named(name).served[key] == versions


@pytest.mark.parametrize(
    ("since", "key"),
    [
        ("2.3", ApiKey.INCREMENTAL_ALTER_CONFIGS),
        ("2.4", ApiKey.OFFSET_DELETE),
        ("2.8", ApiKey.DESCRIBE_CLUSTER),
        ("3.0", ApiKey.LIST_TRANSACTIONS),
        ("3.7", ApiKey.CONSUMER_GROUP_HEARTBEAT),
        ("3.8", ApiKey.DESCRIBE_TOPIC_PARTITIONS),
    ],
)
def test_an_api_is_served_from_its_release_on(since, key):
    having = [name for name in RELEASES if key in release_named(name).served]
    assert having == list(RELEASES[RELEASES.index(since) :])


def test_the_newest_release_is_what_the_table_of_apis_says():
    """Two sources of one fact: the jar asked by reflection, and the definitions in the same jar."""
    newest = RELEASES[-1]
    for key, versions in VERSIONS.items():
        last = versions.split(", ")[-1].split(" ")[1]
        known = KAFKA_VERSIONS[key]
        if key in ADVERTISED and last != "-":
            assert last == f"{known.first}-{known.last}" or key is ApiKey.PRODUCE, (newest, key)
    assert release_named(newest).served == {
        key: versions for key, versions in ADVERTISED.items() if key is not ApiKey.IMPORT_BATCHES
    }


def test_features():
    own = FeaturesImage(finalized={"group.version": 1, "metadata.version": 30, "transaction.version": 2})
    shown = release_named("3.9").shown(own)
    assert (shown.supported, shown.finalized) == ({"metadata.version": (7, 21)}, {"metadata.version": 21})
    shown = release_named("4.0").shown(own)
    assert shown.finalized == {"group.version": 1, "metadata.version": 25, "transaction.version": 2}
    assert release_named("3.2").shown(own) == FeaturesImage({}, {})
    assert set(FEATURES) == {name for name in RELEASES if name >= "3.3"}


def test_a_level_that_the_cluster_has_not_is_not_shown():
    own = FeaturesImage(finalized={"metadata.version": 30, "transaction.version": 1})
    assert release_named("4.0").shown(own).finalized == {"metadata.version": 25, "transaction.version": 1}


def test_an_unknown_release_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"2\.9.*must be one of: 0\.11, 1\.0, .*4\.4"):
        load_config(overrides={"odradek.emulated.release": "2.9"}, environ={})


def test_brokers_among_others_emulate_no_release():
    overrides = {
        "odradek.emulated.release": "2.8",
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095",
    }
    with pytest.raises(ConfigError, match="a broker without others"):
        load_config(overrides=overrides, environ={})

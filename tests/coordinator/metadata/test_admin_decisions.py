"""Quotas, SCRAM users, features, elections, reassignments: the decisions, and that replay gives the same image."""

import base64
import hashlib
import hmac
from dataclasses import replace
from functools import partial
from uuid import UUID

import pytest
from metadata_shards import ShardUnderTest

from odradek.coordinator.configs.layers import BrokerLayers
from odradek.coordinator.metadata.controller.client_quotas import alter_client_quotas, describe_client_quotas
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.controller.elect_leaders import elect_leaders
from odradek.coordinator.metadata.controller.features import UpgradeType, update_features
from odradek.coordinator.metadata.controller.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from odradek.coordinator.metadata.controller.scram import alter_user_scram_credentials, describe_user_scram_credentials
from odradek.coordinator.metadata.controller.unregister_broker import unregister_broker
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import FeaturesImage, MetadataImage, PartitionImage, TopicImage
from odradek.coordinator.metadata.image.replay import replay
from odradek.coordinator.metadata.image.snapshot import snapshot_records
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import alter_client_quotas as quotas
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from odradek.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from odradek.wire.messages.unregister_broker import UnregisterBrokerRequest
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.stored.framing import decode_metadata_record
from odradek.wire.stored.metadata_records import (
    ClientQuotaRecord,
    FeatureLevelRecord,
    RemoveUserScramCredentialRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

EXACT, DEFAULT, ANY = 0, 1, 2
SHA_256, SHA_512 = 1, 2
USER = (("user", "ann"),)
PAIR = (("client-id", None), ("user", "ann"))


@pytest.fixture
def shard() -> ShardUnderTest:
    return ShardUnderTest()


def rebuilt(image: MetadataImage) -> MetadataImage:
    """The image rebuilt from the records of its own snapshot."""
    delta = MetadataDelta()
    for offset, record in enumerate(snapshot_records(image)):
        replay(delta, record, offset, 1)
    return delta.apply()


def written(shard: ShardUnderTest, kind: type) -> list:
    records = [decode_metadata_record(record.value)[0] for record in shard.log if record.value is not None]
    return [record for record in records if isinstance(record, kind)]


# Quotas


def entry(entity, **values: float | None):
    return quotas.AlterClientQuotasRequestEntryData(
        entity=tuple(quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
        ops=tuple(quotas.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()),
    )


def set_quotas(shard: ShardUnderTest, *entries, validate_only: bool = False):
    request = quotas.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    return shard.run(alter_client_quotas, request).entries


def described_quotas(image: MetadataImage, *components, strict: bool = False):
    parts = tuple(ComponentData(entity_type=kind, match_type=how, match=text) for kind, how, text in components)
    return describe_client_quotas(image, DescribeClientQuotasRequest(components=parts, strict=strict))


class TestQuotas:
    def test_they_are_set_changed_and_removed_in_kafkas_records(self, shard):
        for values in ({"producer_byte_rate": 10.0, "request_percentage": 1.5}, {"producer_byte_rate": 20.0}):
            assert [each.error_code for each in set_quotas(shard, entry(USER, **values))] == [0]
        assert shard.image.quotas == {USER: {"producer_byte_rate": 20.0, "request_percentage": 1.5}}
        assert rebuilt(shard.image).quotas == shard.replayed().quotas == shard.image.quotas
        set_quotas(shard, entry(USER, producer_byte_rate=None, request_percentage=None))
        assert shard.image.quotas == shard.replayed().quotas == {}
        assert [record.remove for record in written(shard, ClientQuotaRecord)] == [False, False, False, True, True]

    def test_what_stays_as_it_is_is_not_recorded(self, shard):
        for _ in range(3):
            set_quotas(shard, entry(USER, producer_byte_rate=10.0, consumer_byte_rate=None))
        assert len(written(shard, ClientQuotaRecord)) == 1

    def test_validate_only_records_nothing(self, shard):
        assert set_quotas(shard, entry(USER, producer_byte_rate=10.0), validate_only=True)[0].error_code == 0
        assert shard.image.quotas == {}

    def test_an_entity_named_twice_is_left_alone(self, shard):
        """In any order of its parts."""
        answers = set_quotas(shard, entry(PAIR, producer_byte_rate=1.0), entry(PAIR[::-1], producer_byte_rate=2.0))
        assert [each.error_code for each in answers] == [ErrorCode.INVALID_REQUEST]
        assert shard.image.quotas == {}

    def test_too_much_at_once_is_refused(self, shard):
        many = [entry((("user", f"{number}"),), producer_byte_rate=1.0) for number in range(10_001)]
        assert {each.error_code for each in set_quotas(shard, *many)} == {ErrorCode.POLICY_VIOLATION}
        assert shard.image.quotas == {}
        assert {each.error_code for each in set_quotas(shard, *many[1:])} == {0}

    @pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), 1e30, 1.5, float("inf")])
    def test_rates_of_bytes_are_positive_whole_numbers(self, shard, value):
        assert set_quotas(shard, entry(USER, producer_byte_rate=value))[0].error_code == ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize("address", ["10.0.0.1", "::1", None])
    def test_addresses_have_quotas_of_their_own(self, shard, address):
        answers = set_quotas(shard, entry((("ip", address),), connection_creation_rate=5.0))
        assert [each.error_code for each in answers] == [0]
        other = set_quotas(shard, entry((("ip", address),), producer_byte_rate=5.0))
        assert [each.error_code for each in other] == [ErrorCode.INVALID_REQUEST]

    @pytest.mark.parametrize(
        "entity",
        [(), (("user", ""),), (("group", "g"),), (("ip", "10.0.0.1"), ("user", "ann")), (("ip", "localhost"),)],
        ids=str,
    )
    def test_entities_that_cannot_be_are_refused(self, shard, entity):
        answers = set_quotas(shard, entry(entity, producer_byte_rate=5.0), entry(USER, producer_byte_rate=5.0))
        assert [each.error_code for each in answers] == [ErrorCode.INVALID_REQUEST, 0]
        assert list(shard.image.quotas) == [USER]

    @pytest.mark.parametrize(
        ("entity", "values", "message"),
        [
            ((), {}, "Invalid empty client quota entity"),
            ((("user", ""),), {}, "Empty user not supported"),
            ((("group", "g"),), {}, "Unhandled client quota entity type: group"),
            ((("ip", "no-host"),), {}, "no-host is not a valid IP or resolvable host."),
            (
                (("ip", "::1"), ("user", "ann")),
                {},
                "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
            ),
            ((("user", "ann"),), {"no_such": 1.0}, "Invalid configuration key no_such"),
            ((("user", "ann"),), {"producer_byte_rate": -1.0}, "Quota producer_byte_rate must be greater than 0"),
            ((("user", "ann"),), {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
            (
                (("user", "ann"),),
                {"producer_byte_rate": 1e30},
                "Proposed value for producer_byte_rate is too large for a LONG.",
            ),
            (
                (("ip", "::1"),),
                {"connection_creation_rate": 1e10},
                "Proposed value for connection_creation_rate is too large for an INT.",
            ),
        ],
        ids=str,
    )
    def test_quotas_are_refused_in_kafkas_words(self, shard, entity, values, message):
        """Compared with the texts in Kafka 4.3.1's ClientQuotaControlManager; tools look for them."""
        assert set_quotas(shard, entry(entity, **values))[0].error_message == message

    def test_a_repeated_entity_is_refused_in_kafkas_words(self, shard):
        both = (("client-id", None), ("user", "ann"))
        [answer] = set_quotas(shard, entry(both, producer_byte_rate=1.0), entry(both, producer_byte_rate=2.0))
        words = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null, user=ann})"
        assert answer.error_message == words

    @pytest.mark.parametrize(
        ("components", "message"),
        [
            ([("group", ANY, None)], "Unsupported entity type group"),
            ([("", ANY, None)], "Invalid empty entity type."),
            ([("user", 9, None)], "Unknown match type 9"),
            ([("user", EXACT, None)], "Request specified MATCH_TYPE_EXACT, but set match string to null."),
            ([("user", ANY, "a")], "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
            ([("user", DEFAULT, "a")], "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
            ([("user", ANY, None)] * 2, "Entity type user cannot appear more than once in the filter."),
        ],
        ids=str,
    )
    def test_filters_are_refused_in_kafkas_words(self, shard, components, message):
        assert described_quotas(shard.image, *components).error_message == message

    def test_filters_pick_by_name_default_and_type(self, shard):
        for entity in (USER, PAIR, (("user", None),), (("client-id", "app"),)):
            set_quotas(shard, entry(entity, producer_byte_rate=5.0))

        def found(*components, strict: bool = False):
            entries = described_quotas(shard.image, *components, strict=strict).entries or ()
            return {tuple((part.entity_type, part.entity_name) for part in each.entity) for each in entries}

        assert len(found()) == 4
        assert found(strict=True) == set()
        assert found(("user", EXACT, "ann")) == {USER, PAIR}
        assert found(("user", EXACT, "ann"), strict=True) == {USER}
        assert found(("user", DEFAULT, None)) == {(("user", None),)}
        assert found(("user", ANY, None), ("client-id", ANY, None)) == {PAIR}

    @pytest.mark.parametrize(
        ("components", "code"),
        [
            ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
            ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
            ([("user", 9, None)], ErrorCode.INVALID_REQUEST),
            ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
            ([("user", ANY, "ann")], ErrorCode.INVALID_REQUEST),
            ([("user", ANY, None), ("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
            ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ],
        ids=str,
    )
    def test_filters_that_make_no_sense_are_refused(self, shard, components, code):
        answer = described_quotas(shard.image, *components)
        assert (answer.error_code, answer.entries) == (code, None)


# SCRAM users


def upsertion(name="ann", mechanism=SHA_256, iterations=4096, salt=b"salt", salted_password=b"p" * 32):
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted_password
    )


def deletion(name="ann", mechanism=SHA_256):
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter_users(shard: ShardUnderTest, *changes):
    request = AlterUserScramCredentialsRequest(
        upsertions=tuple(each for each in changes if isinstance(each, ScramCredentialUpsertion)),
        deletions=tuple(each for each in changes if isinstance(each, ScramCredentialDeletion)),
    )
    results = shard.run(alter_user_scram_credentials, request).results
    return {each.user: each.error_code for each in results}


def described_users(image: MetadataImage, *names: str):
    users = tuple(UserName(name=name) for name in names) or None
    results = describe_user_scram_credentials(image, DescribeUserScramCredentialsRequest(users=users)).results
    return {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos] or each.error_code
        for each in results
    }


class TestScramUsers:
    def test_what_is_kept_verifies_the_example_of_rfc_7677(self, shard):
        """Salt, iterations, and therefore the server's signature, are those of the RFC's exchange."""
        salted = bytes.fromhex("c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d")
        salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
        assert alter_users(shard, upsertion("user", salt=salt, salted_password=salted)) == {"user": 0}
        (record,) = written(shard, UserScramCredentialRecord)
        message = (
            b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
        )

        signature = hmac.digest(bytes(record.server_key), message, "sha256")
        assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
        client_signature = hmac.digest(bytes(record.stored_key), message, "sha256")
        client_key = bytes(a ^ b for a, b in zip(proof, client_signature, strict=True))
        assert hashlib.sha256(client_key).digest() == bytes(record.stored_key)

    def test_users_come_change_and_go(self, shard):
        assert alter_users(shard, upsertion(), upsertion("bob", SHA_512, 8192)) == {"ann": 0, "bob": 0}
        assert alter_users(shard, upsertion("ann", SHA_512)) == {"ann": 0}
        assert described_users(shard.image) == {"ann": [(1, 4096), (2, 4096)], "bob": [(2, 8192)]}
        assert rebuilt(shard.image).scram == shard.replayed().scram == shard.image.scram
        assert alter_users(shard, deletion(), upsertion("bob", SHA_512, 5000)) == {"ann": 0, "bob": 0}
        assert described_users(shard.image, "ann", "bob") == {"ann": [(2, 4096)], "bob": [(2, 5000)]}
        assert len(written(shard, RemoveUserScramCredentialRecord)) == 1
        assert shard.replayed().scram == shard.image.scram

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
            (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
            (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
            (upsertion(salted_password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
            (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
            (deletion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
            (deletion(), ErrorCode.RESOURCE_NOT_FOUND),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_one_refusal_leaves_the_others_alone(self, shard, change, code):
        assert alter_users(shard, change, upsertion("bob")) == {change.name: code, "bob": 0}
        assert list(shard.image.scram) == [("bob", SHA_256)]

    def test_a_user_named_twice_is_refused(self, shard):
        alter_users(shard, upsertion())
        for again in ((deletion(), upsertion()), (upsertion(), upsertion(mechanism=SHA_512)), (deletion(), deletion())):
            assert alter_users(shard, *again) == {"ann": ErrorCode.DUPLICATE_RESOURCE}
        assert list(shard.image.scram) == [("ann", SHA_256)]

    def test_unknown_and_duplicate_users_are_refused(self, shard):
        alter_users(shard, upsertion())
        assert described_users(shard.image, "ann", "bob", "bob", "cid") == {
            "ann": [(1, 4096)],
            "bob": ErrorCode.DUPLICATE_RESOURCE,
            "cid": ErrorCode.RESOURCE_NOT_FOUND,
        }

    def test_keys_are_not_shown_in_logs(self, shard):
        alter_users(shard, upsertion(salt=b"grain of salt"))
        assert "grain" not in repr(shard.image.scram)


# Features


FEATURES = FeaturesImage(
    supported={"metadata.version": (7, 30), "group.version": (0, 1), "transaction.version": (0, 2)},
    finalized={"metadata.version": 30, "transaction.version": 1},
)


def update(*updates: tuple[str, int, int], dry: bool = False, version: int = 2, features: FeaturesImage = FEATURES):
    keys = tuple(
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=how) for name, level, how in updates
    )
    context = DecisionContext(replace(MetadataImage(), features=features), BrokerLayers({}), node_id=1)
    return update_features(context, UpdateFeaturesRequest(feature_updates=keys, validate_only=dry), version)


UP, DOWN, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


class TestFeatures:
    @pytest.mark.parametrize(
        ("name", "level", "how"),
        [
            ("group.version", 1, UP),
            ("group.version", 0, UP),
            ("group.version", 0, DOWN),
            ("transaction.version", 2, UP),
            ("transaction.version", 1, UNSAFE),
            ("transaction.version", 0, DOWN),
            ("transaction.version", 0, UNSAFE),
            ("metadata.version", 30, DOWN),
        ],
    )
    def test_a_level_within_reach_is_recorded(self, name, level, how):
        records, answer = update((name, level, how))
        assert (records, answer.error_code) == ([FeatureLevelRecord(name=name, feature_level=level)], 0)
        assert update((name, level, how), dry=True)[0] == []

    @pytest.mark.parametrize(
        ("name", "level", "how"),
        [
            ("group.version", 1, DOWN),
            ("group.version", 2, UP),
            ("group.version", -1, DOWN),
            ("group.version", 1, 0),
            ("group.version", 1, 4),
            ("transaction.version", 0, UP),
            ("transaction.version", 2, UNSAFE),
            ("metadata.version", 29, UP),
            ("metadata.version", 29, DOWN),
            ("metadata.version", 29, UNSAFE),
            ("metadata.version", 6, DOWN),
            ("metadata.version", 31, UP),
            ("no.such", 0, UP),
            ("no.such", 1, UP),
        ],
    )
    def test_others_are_refused_and_all_that_came_with_them(self, name, level, how):
        records, answer = update(("group.version", 1, UP), (name, level, how), dry=False)
        assert (records, answer.error_code, answer.results) == ([], ErrorCode.INVALID_UPDATE_VERSION, ())
        assert name in (answer.error_message or "")

    @pytest.mark.parametrize(("version", "named"), [(0, 1), (1, 1), (2, 0)])
    def test_old_versions_name_each_feature(self, version, named):
        assert len(update(("group.version", 1, UP), version=version)[1].results) == named

    def test_the_shard_puts_a_level_in_force(self, shard):
        request = UpdateFeaturesRequest(
            feature_updates=(FeatureUpdateKey(feature="metadata.version", max_version_level=30),)
        )
        before = shard.image.offset
        assert shard.run(partial(update_features, api_version=2), request).error_code == 0
        assert shard.image.features.finalized["metadata.version"] == 30
        assert shard.image.offset > before, "or clients would not look again"
        assert shard.replayed().features == shard.image.features


# Leaders and replicas


def context_of(*partitions: PartitionImage) -> DecisionContext:
    return DecisionContext(image_of(*partitions), BrokerLayers({}), node_id=1)


def image_of(*partitions: PartitionImage) -> MetadataImage:
    topic = TopicImage("t", UUID(int=9), is_internal=False, partitions=partitions)
    base = ShardUnderTest().image
    return replace(base, topics_by_name={"t": topic}, topics_by_id={topic.topic_id: topic})


LED = PartitionImage(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
ORPHAN = replace(LED, replicas=(2,), isr=(2,), leader=-1)
MISLED = replace(LED, replicas=(2, 1))
MOVING = replace(LED, replicas=(1, 2), adding_replicas=(2,))


class TestElections:
    @pytest.mark.parametrize(
        ("partition", "election", "code"),
        [
            (LED, 0, ErrorCode.ELECTION_NOT_NEEDED),
            (LED, 1, ErrorCode.ELECTION_NOT_NEEDED),
            (MISLED, 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
            (MISLED, 1, ErrorCode.ELECTION_NOT_NEEDED),
            (ORPHAN, 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
            (ORPHAN, 1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
            (LED, 7, ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_each_partition_is_answered(self, partition, election, code):
        asked = (TopicPartitions(topic="t", partitions=(0,)),)
        request = ElectLeadersRequest(election_type=election, topic_partitions=asked)
        records, answer = elect_leaders(context_of(partition), request)
        assert records == []
        (result,) = answer.replica_election_results[0].partition_result
        assert result.error_code == code
        assert (answer.error_code == 0) == (code is not ErrorCode.INVALID_REQUEST)

    def test_asked_for_all_it_names_those_that_need_one(self):
        _, answer = elect_leaders(context_of(LED, ORPHAN), ElectLeadersRequest(topic_partitions=None))
        (topic,) = answer.replica_election_results
        assert [result.partition_id for result in topic.partition_result] == [1]


class TestReassignments:
    @pytest.mark.parametrize(
        ("replicas", "code"),
        [
            ((1,), ErrorCode.NONE),
            (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
            ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ((1, 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ],
    )
    def test_there_is_one_assignment(self, replicas, code):
        parts = (ReassignablePartition(partition_index=0, replicas=replicas), ReassignablePartition(partition_index=1))
        request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="t", partitions=parts),))
        records, answer = alter_partition_reassignments(context_of(LED), request)
        assert records == []
        (topic,) = answer.responses
        assert [each.error_code for each in topic.partitions] == [code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    def test_what_moves_is_listed(self):
        asked = (ListPartitionReassignmentsTopics(name="t", partition_indexes=(1, 2)),)
        for topics in (None, asked):
            answer = list_partition_reassignments(
                image_of(LED, MOVING), ListPartitionReassignmentsRequest(topics=topics)
            )
            (topic,) = answer.topics
            assert [(each.partition_index, each.adding_replicas) for each in topic.partitions] == [(1, (2,))]
        assert list_partition_reassignments(image_of(LED), ListPartitionReassignmentsRequest(topics=asked)).topics == ()


# Brokers


def unregister(shard: ShardUnderTest, broker_id: int) -> int:
    request = UnregisterBrokerRequest(broker_id=broker_id)
    return shard.run(unregister_broker, request).error_code


def test_a_broker_that_will_not_come_back_is_forgotten():
    shard = ShardUnderTest(node_ids=(1, 2))
    assert unregister(shard, 3) == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert unregister(shard, 1) == ErrorCode.INVALID_REQUEST, "it runs"
    assert unregister(shard, 2) == 0
    assert list(shard.image.brokers) == list(shard.replayed().brokers) == [1]
    assert len(written(shard, UnregisterBrokerRecord)) == 1
    assert unregister(shard, 2) == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_other_metadata_is_not_copied_for_a_quota(shard):
    request = CreateTopicsRequest(topics=(CreatableTopic(name="t", num_partitions=1, replication_factor=1),))
    shard.run(create_topics, request)
    before = shard.image
    set_quotas(shard, entry(USER, producer_byte_rate=5.0))
    assert shard.image.topics_by_name is before.topics_by_name
    assert before.quotas == {}, "an image that was taken never changes"

"""The part of `every_version` about client identities: quotas, SCRAM users, ACLs, tokens, SASL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compat_tests.every_version import Stage, script
from compat_tests.every_version_admin import as_data, settle
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from odradek.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.wire.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from odradek.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.messages.describe_acls import DescribeAclsRequest
from odradek.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from odradek.wire.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from odradek.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from odradek.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest

EXACT, DEFAULT, ANY = 0, 1, 2
SHA_256, SHA_512 = 1, 2
Entity = tuple[tuple[str, str | None], ...]
Ops = tuple[tuple[str, float | None], ...]


def alter_quotas(stage: Stage, version: int, *changes: tuple[Entity, Ops], dry: bool = False) -> Any:
    """AlterClientQuotas, where a value of None removes; returns the answer by entity."""
    entries = tuple(
        AlterClientQuotasRequestEntryData(
            entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
            ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops),
        )
        for entity, ops in changes
    )
    request = AlterClientQuotasRequest(entries=entries, validate_only=dry)
    answer = stage.wire.call(ApiKey.ALTER_CLIENT_QUOTAS, version, request)
    return sorted((_entity(each.entity), each.error_code, bool(each.error_message)) for each in answer.entries)


def _entity(parts: Any) -> Any:
    return sorted((part.entity_type, part.entity_name is None, part.entity_name or "") for part in parts)


def quotas(stage: Stage, version: int, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    """DescribeClientQuotas, without other tests' entities."""
    settle(stage)
    parts = tuple(ComponentData(entity_type=kind, match_type=how, match=text) for kind, how, text in components)
    request = DescribeClientQuotasRequest(components=parts, strict=strict)
    answer = stage.wire.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, request)
    found = [
        (_entity(entry.entity), sorted((each.key, each.value) for each in entry.values))
        for entry in answer.entries or ()
        if all(part.entity_name is None or stage.name in part.entity_name for part in entry.entity)
    ]
    return answer.error_code, bool(answer.error_message), answer.entries is None, sorted(found)


@script(ApiKey.ALTER_CLIENT_QUOTAS)
def _alter_client_quotas(stage: Stage, version: int) -> Iterator[Any]:
    user: Entity = (("user", stage.name),)
    pair: Entity = (*user, ("client-id", f"{stage.name}-client"))
    rate = "producer_byte_rate"
    tries: list[tuple[Entity, Ops]] = [
        (user, ((rate, 1000.0), ("consumer_byte_rate", 2000.0))),
        (user, ((rate, None), ("request_percentage", 12.5))),
        (user, ((rate, None),)),
        (pair, (("controller_mutation_rate", 1.5),)),
        (pair, ((rate, 10.5),)),
        (pair, ((rate, 10.0), (rate, 11.0))),
        (user, ((rate, 0.0),)),
        (user, ((rate, -1.0),)),
        (user, ((rate, 1e30),)),
        (user, (("connection_creation_rate", 5.0),)),
        (user, (("no_such_rate", 5.0),)),
        (user, (("no_such_rate", None),)),
        (user, ()),
        ((("ip", "10.0.0.1"),), (("connection_creation_rate", 5.0),)),
        ((("ip", "10.0.0.1"),), (("connection_creation_rate", 5.5),)),
        ((("ip", "10.0.0.1"),), ((rate, 5.0),)),
        ((("ip", "not an address"),), (("connection_creation_rate", 5.0),)),
        ((("ip", "10.0.0.1"), *user), (("connection_creation_rate", 5.0),)),
        ((("ip", "10.0.0.1"),), (("connection_creation_rate", None),)),
        ((), ((rate, 5.0),)),
        ((("group", "x"),), ((rate, 5.0),)),
        ((("user", ""),), ((rate, 5.0),)),
        ((("client-id", ""),), ((rate, None),)),
        ((("user", None), ("client-id", None)), ((rate, 77.0),)),
    ]
    for entity, ops in tries:
        yield entity, ops, alter_quotas(stage, version, (entity, ops), dry=True)
        yield alter_quotas(stage, version, (entity, ops))
        yield quotas(stage, 1)
    yield alter_quotas(stage, version, ((*user, ("user", f"{stage.name}-2")), ((rate, 2.0),)))
    yield alter_quotas(stage, version, (user, ((rate, 1.0),)), (pair, ((rate, 0.0),)))
    yield alter_quotas(stage, version)
    yield quotas(stage, 1)
    yield alter_quotas(stage, version, ((("user", None), ("client-id", None)), ((rate, None),)))
    yield alter_quotas(stage, version, ((("user", ""),), ((rate, None),)))


@script(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def _describe_client_quotas(stage: Stage, version: int) -> Iterator[Any]:
    user, client = stage.name, f"{stage.name}-client"
    rate = (("producer_byte_rate", 1000.0),)
    entities: list[Entity] = [
        (("user", user),),
        (("client-id", client),),
        (("user", user), ("client-id", client)),
        (("user", user), ("client-id", None)),
        (("user", None),),
    ]
    for entity in entities:
        alter_quotas(stage, 1, (entity, rate))
    filters: list[tuple[tuple[str, int, str | None], ...]] = [
        (),
        (("user", EXACT, user),),
        (("user", DEFAULT, None),),
        (("user", ANY, None),),
        (("client-id", ANY, None),),
        (("user", EXACT, user), ("client-id", DEFAULT, None)),
        (("user", ANY, None), ("client-id", ANY, None)),
        (("user", EXACT, "nobody"),),
        (("ip", ANY, None),),
        (("ip", ANY, None), ("user", ANY, None)),
        (("", ANY, None),),
        (("group", ANY, None),),
        (("user", ANY, None), ("user", EXACT, user)),
        (("user", EXACT, None),),
        (("user", DEFAULT, user),),
        (("user", ANY, user),),
        (("user", 9, user),),
    ]
    for components in filters:
        for strict in (False, True):
            yield components, strict, quotas(stage, version, *components, strict=strict)
    alter_quotas(stage, 1, ((("user", None),), (("producer_byte_rate", None),)))


def _upsert(name: str, mechanism: int = SHA_256, iterations: int = 4096, **fields: bytes) -> ScramCredentialUpsertion:
    given = {"salt": b"salt", "salted_password": b"p" * 32, **fields}
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, iterations=iterations, **given)


def alter_users(
    stage: Stage, upsertions: tuple[ScramCredentialUpsertion, ...], deletions: tuple[tuple[str, int], ...] = ()
) -> Any:
    """AlterUserScramCredentials; returns the answer by user."""
    gone = tuple(ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in deletions)
    request = AlterUserScramCredentialsRequest(upsertions=upsertions, deletions=gone)
    answer = stage.wire.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    return sorted((each.user, each.error_code, bool(each.error_message)) for each in answer.results)


def users(stage: Stage, *names: str) -> Any:
    """DescribeUserScramCredentials, without other tests' users."""
    settle(stage)
    asked = tuple(UserName(name=name) for name in names)
    request = DescribeUserScramCredentialsRequest(users=asked or None)
    answer = stage.wire.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
    found = [
        (
            each.user,
            each.error_code,
            bool(each.error_message),
            sorted((info.mechanism, info.iterations) for info in each.credential_infos),
        )
        for each in answer.results
        if stage.name in each.user
    ]
    return answer.error_code, bool(answer.error_message), sorted(found)


@script(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
def _alter_user_scram_credentials(stage: Stage, version: int) -> Iterator[Any]:
    name = stage.name
    first, second = f"{name}-1", f"{name}-2"
    yield alter_users(stage, (_upsert(first), _upsert(second, SHA_512, 8192)))
    yield users(stage)
    for upsertions, deletions in (
        ((_upsert(first, SHA_512),), ()),
        ((_upsert(first), _upsert(first, SHA_512)), ()),
        ((_upsert(first),), ((first, SHA_512),)),
        ((_upsert(first, iterations=4095),), ()),
        ((_upsert(first, iterations=16385),), ()),
        ((_upsert(first, iterations=16384),), ()),
        ((_upsert(first, SHA_512, 4095),), ()),
        ((_upsert(first, 0),), ()),
        ((_upsert(first, 9),), ()),
        ((_upsert(""),), ()),
        ((_upsert(first, salt=b""),), ()),
        ((_upsert(first, salted_password=b"short"),), ()),
        ((), ((first, SHA_512),)),
        ((), ((first, SHA_512),)),
        ((), ((first, SHA_256), (first, SHA_512))),
        ((), (("", SHA_256),)),
        ((), ((first, 9),)),
        ((), (("nobody-" + name, SHA_256), (second, SHA_512))),
        ((), ()),
    ):
        yield alter_users(stage, upsertions, deletions)
        yield users(stage)


@script(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def _describe_user_scram_credentials(stage: Stage, version: int) -> Iterator[Any]:
    name = stage.name
    alter_users(stage, (_upsert(name), _upsert(f"{name}-2", SHA_512, 8192)))
    yield users(stage)
    yield users(stage, name)
    yield users(stage, name, f"{name}-2", f"{name}-none")
    yield users(stage, name, name)
    yield users(stage, f"{name}-none", f"{name}-none")
    empty = stage.wire.call(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, version, DescribeUserScramCredentialsRequest(users=())
    )
    yield empty.error_code, sorted(each.user for each in empty.results if name in each.user)


@script(ApiKey.DESCRIBE_ACLS)
def _describe_acls(stage: Stage, version: int) -> Iterator[Any]:
    for kind, pattern, operation, permission in ((1, 1, 1, 1), (2, 3, 3, 3), (2, 2, 2, 2)):
        request = DescribeAclsRequest(
            resource_type_filter=kind,
            resource_name_filter=None,
            pattern_type_filter=pattern,
            principal_filter=None,
            host_filter=None,
            operation=operation,
            permission_type=permission,
        )
        yield as_data(stage.wire.call(ApiKey.DESCRIBE_ACLS, version, request))


@script(ApiKey.CREATE_ACLS)
def _create_acls(stage: Stage, version: int) -> Iterator[Any]:
    one = AclCreation(
        resource_type=2,
        resource_name=stage.name,
        principal="User:me",
        host="*",
        operation=3,
        permission_type=3,
    )
    for creations in ((one,), (one, one), ()):
        yield as_data(stage.wire.call(ApiKey.CREATE_ACLS, version, CreateAclsRequest(creations=creations)))


@script(ApiKey.DELETE_ACLS)
def _delete_acls(stage: Stage, version: int) -> Iterator[Any]:
    one = DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter=stage.name,
        principal_filter=None,
        host_filter=None,
        operation=3,
        permission_type=3,
    )
    for filters in ((one,), (one, one), ()):
        yield as_data(stage.wire.call(ApiKey.DELETE_ACLS, version, DeleteAclsRequest(filters=filters)))


@script(ApiKey.CREATE_DELEGATION_TOKEN)
def _create_delegation_token(stage: Stage, version: int) -> Iterator[Any]:
    renewers = (CreatableRenewers(principal_type="User", principal_name="you"),)
    owner = {"owner_principal_type": "User", "owner_principal_name": "me"} if version >= 3 else {}
    for fields in ({}, owner):
        request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1, **fields)  # type: ignore[arg-type]
        yield as_data(stage.wire.call(ApiKey.CREATE_DELEGATION_TOKEN, version, request))


@script(ApiKey.RENEW_DELEGATION_TOKEN)
def _renew_delegation_token(stage: Stage, version: int) -> Iterator[Any]:
    request = RenewDelegationTokenRequest(hmac=b"hmac", renew_period_ms=1000)
    yield as_data(stage.wire.call(ApiKey.RENEW_DELEGATION_TOKEN, version, request))


@script(ApiKey.EXPIRE_DELEGATION_TOKEN)
def _expire_delegation_token(stage: Stage, version: int) -> Iterator[Any]:
    request = ExpireDelegationTokenRequest(hmac=b"hmac", expiry_time_period_ms=-1)
    yield as_data(stage.wire.call(ApiKey.EXPIRE_DELEGATION_TOKEN, version, request))


@script(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def _describe_delegation_token(stage: Stage, version: int) -> Iterator[Any]:
    owners = (DescribeDelegationTokenOwner(principal_type="User", principal_name="me"),)
    for asked in (owners, None, ()):
        request = DescribeDelegationTokenRequest(owners=asked)
        yield as_data(stage.wire.call(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, request))


@script(ApiKey.SASL_HANDSHAKE)
def _sasl_handshake(stage: Stage, version: int) -> Iterator[Any]:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", ""):
        request = SaslHandshakeRequest(mechanism=mechanism)
        yield as_data(stage.wire.call(ApiKey.SASL_HANDSHAKE, version, request))


@script(ApiKey.SASL_AUTHENTICATE)
def _sasl_authenticate(stage: Stage, version: int) -> Iterator[Any]:
    request = SaslAuthenticateRequest(auth_bytes=b"\0me\0secret")
    yield as_data(stage.wire.call(ApiKey.SASL_AUTHENTICATE, version, request))

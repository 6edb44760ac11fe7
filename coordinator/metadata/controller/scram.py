"""SCRAM users (KIP-554): credentials are computed from salted passwords, and described without their secrets.

Of the salted password that a client sends, only the stored key and the server key are kept (RFC 5802), as in Kafka: the
log's contents are enough to verify a login, but not to log in.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import alter_user_scram_credentials as alter
from odradek.wire.messages import describe_user_scram_credentials as describe
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord

HASHES: Final[Mapping[int, str]] = {1: "sha256", 2: "sha512"}
"""The mechanisms by Kafka's numbers: SCRAM-SHA-256 and SCRAM-SHA-512."""
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384


# Changes


def alter_user_scram_credentials(
    context: DecisionContext, request: alter.AlterUserScramCredentialsRequest
) -> tuple[list[Message], alter.AlterUserScramCredentialsResponse]:
    """Decide on each user independently; a user may be named once, whatever the mechanism."""
    times = Counter(each.name for each in (*request.deletions, *request.upsertions))
    records: list[Message] = []
    answers: dict[str, alter.AlterUserScramCredentialsResult] = {}
    for change in (*request.deletions, *request.upsertions):
        error = None
        try:
            records.append(_record(context.image, change, times))
        except RefusedError as refused:
            error = refused
        # The first error of a user that is named twice is reported.
        answers.setdefault(change.name, _answer(change.name, error))
    return records, alter.AlterUserScramCredentialsResponse(results=tuple(answers.values()))


def _answer(user: str, error: RefusedError | None) -> alter.AlterUserScramCredentialsResult:
    return alter.AlterUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )


def _record(
    image: MetadataImage,
    change: alter.ScramCredentialDeletion | alter.ScramCredentialUpsertion,
    times: Mapping[str, int],
) -> Message:
    if not change.name:
        raise RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The user's name is empty.")
    if change.mechanism not in HASHES:
        raise RefusedError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"There is no SCRAM mechanism {change.mechanism}.")
    record = _upserted(change) if isinstance(change, alter.ScramCredentialUpsertion) else _deleted(image, change)
    if times[change.name] > 1:
        raise RefusedError(ErrorCode.DUPLICATE_RESOURCE, "The user is named more than once.")
    return record


def _deleted(image: MetadataImage, change: alter.ScramCredentialDeletion) -> Message:
    if (change.name, change.mechanism) not in image.scram:
        raise RefusedError(ErrorCode.RESOURCE_NOT_FOUND, "The user has no credential for this mechanism.")
    return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)


def _upserted(change: alter.ScramCredentialUpsertion) -> Message:
    if not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
        raise RefusedError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"The number of iterations must be {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {change.iterations}.",
        )
    salted = bytes(change.salted_password)
    if not salted:
        raise RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password is empty.")
    name = HASHES[change.mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=bytes(change.salt),
        stored_key=hashlib.new(name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", name),
        iterations=change.iterations,
    )


# Descriptions


def describe_user_scram_credentials(
    image: MetadataImage, request: describe.DescribeUserScramCredentialsRequest
) -> describe.DescribeUserScramCredentialsResponse:
    """Returns the mechanisms and iterations of the requested users, or of all; never a key."""
    known: dict[str, list[describe.CredentialInfo]] = {}
    for (name, mechanism), credential in image.scram.items():
        info = describe.CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        known.setdefault(name, []).append(info)
    asked = Counter(user.name for user in request.users or ()) or dict.fromkeys(known, 1)
    results = [_described(name, times, known.get(name, ())) for name, times in asked.items()]
    return describe.DescribeUserScramCredentialsResponse(error_message=None, results=tuple(results))


def _described(
    name: str, times: int, infos: Sequence[describe.CredentialInfo]
) -> describe.DescribeUserScramCredentialsResult:
    if times > 1:
        return _error(name, ErrorCode.DUPLICATE_RESOURCE, "The user is named more than once.")
    if not infos:
        return _error(name, ErrorCode.RESOURCE_NOT_FOUND, "The user has no credentials.")
    return describe.DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=tuple(infos))


def _error(name: str, error: ErrorCode, message: str) -> describe.DescribeUserScramCredentialsResult:
    return describe.DescribeUserScramCredentialsResult(user=name, error_code=error, error_message=message)

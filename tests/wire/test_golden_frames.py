"""Real frames between ten clients and Apache Kafka 4.4.0, decoded and encoded again to the same bytes."""

from collections import defaultdict

import pytest
from request_frames import decode_request
from wire_catalogue import GoldenFrame, golden_frames

from odradek.wire.api_keys import ApiKey
from odradek.wire.headers import decode_response, encode_request, encode_response_parts

KEYS = {key.name.title().replace("_", ""): key for key in ApiKey}
DIFFERENT: dict[tuple[str, str], str] = {}
"""Frames that are not encoded to the same bytes, by scenario and API, with the reason: none."""

BY_SCENARIO: dict[str, list[GoldenFrame]] = defaultdict(list)
for golden in golden_frames():
    BY_SCENARIO[golden.scenario].append(golden)


def encoded_again(frame: GoldenFrame) -> bytes:
    if frame.is_request:
        header, request = decode_request(frame.content)
        assert (header.api_key, header.api_version) == (KEYS[frame.api], frame.version)
        tags = header.unknown_tagged_fields
        return encode_request(request, frame.version, header.correlation_id, header.client_id, tags)
    correlation_id, response = decode_response(KEYS[frame.api], frame.version, frame.content)
    return b"".join(encode_response_parts(response, frame.version, correlation_id))


@pytest.mark.parametrize("scenario", sorted(BY_SCENARIO))
def test_frames_come_out_as_they_went_in(scenario: str):
    for frame in BY_SCENARIO[scenario]:
        same = encoded_again(frame) == len(frame.content).to_bytes(4, "big") + frame.content
        assert same is ((scenario, frame.api) not in DIFFERENT), f"{frame.api} {frame.version} {frame.is_request}"


def test_the_archive_is_whole():
    assert len(golden_frames()) == 1098
    assert len({(frame.api, frame.version) for frame in golden_frames()}) > 130

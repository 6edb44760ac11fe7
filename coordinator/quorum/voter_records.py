"""The control records with a quorum's voters, as Kafka writes them: KRaftVersionRecord and VotersRecord."""

from collections.abc import Iterable, Iterator, Sequence

from odradek.coordinator.quorum.voters import KRAFT_VERSIONS, ReplicaKey, Voter, VotersAt, VoterSet
from odradek.wire.errors import ProtocolError
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.crc import BytesLike
from odradek.wire.records.reader import ControlMarker, ControlType, read_control_markers
from odradek.wire.schema.codec import decode, encode
from odradek.wire.stored.control_records import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    VotersRecord,
    VotersRecordVoter,
)


def version_record() -> tuple[ControlType, bytes]:
    """Returns the record that raises `kraft.version` to 1."""
    return ControlType.KRAFT_VERSION, bytes(encode(KRaftVersionRecord(kraft_version=KRAFT_VERSIONS[1]), 0))


def voters_record(voters: VoterSet) -> tuple[ControlType, bytes]:
    """Returns the record of a voter set."""
    listed = [
        VotersRecordVoter(
            voter_id=each.key.id,
            voter_directory_id=each.key.directory_id,
            endpoints=tuple([Endpoint(name=name, host=host, port=port) for name, (host, port) in _sorted(each)]),
            kraft_version_feature=KRaftVersionFeature(
                min_supported_version=each.kraft_versions[0], max_supported_version=each.kraft_versions[1]
            ),
        )
        for each in voters.voters
    ]
    return ControlType.KRAFT_VOTERS, bytes(encode(VotersRecord(voters=tuple(listed)), 0))


def _sorted(voter: Voter) -> Sequence[tuple[str, tuple[str, int]]]:
    return sorted(voter.endpoints.items())


def voters_in(markers: Iterable[ControlMarker]) -> Iterator[VotersAt]:
    """Yield the voter sets in control records. Raises ProtocolError for records of a newer version."""
    for marker in markers:
        if marker.value is None:
            continue
        if marker.type is ControlType.KRAFT_VERSION:
            level = decode(KRaftVersionRecord, 0, marker.value)[0].kraft_version
            if level > KRAFT_VERSIONS[1]:
                raise ProtocolError(f"kraft.version is {level}, and this version serves {KRAFT_VERSIONS[1]} at most")
        elif marker.type is ControlType.KRAFT_VOTERS:
            record = decode(VotersRecord, 0, marker.value)[0]
            yield VotersAt(marker.offset, VoterSet.of(map(_voter, record.voters)))


def _voter(of: VotersRecordVoter) -> Voter:
    feature = of.kraft_version_feature
    return Voter(
        ReplicaKey(of.voter_id, of.voter_directory_id),
        {each.name: (each.host, each.port) for each in of.endpoints},
        (feature.min_supported_version, feature.max_supported_version),
    )


def voters_of(chunk: BytesLike) -> Iterator[VotersAt]:
    """Yield the voter sets in the batches of a log. Raises InvalidRecordBatch and ProtocolError."""
    for header in iter_headers(chunk):
        if header.is_control:
            yield from voters_in(read_control_markers(chunk, header))

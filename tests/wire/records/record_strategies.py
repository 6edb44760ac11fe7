"""Records and batches for property tests, and the same batches as other implementations build them."""

from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from odradek.wire.records.batch import Codec
from odradek.wire.records.builder import SimpleRecord

CODECS = list(Codec)
ORACLES = {"kafka-python": KafkaPythonBuilder, "aiokafka": AiokafkaBuilder}

blobs = st.none() | st.binary(max_size=40) | st.builds(lambda b, n: b * n, st.binary(max_size=5), st.integers(0, 900))
header_keys = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
record_headers = st.lists(st.tuples(header_keys, blobs), max_size=4).map(tuple)
timestamps = st.just(-1) | st.integers(0, 2**45) | st.integers(-(2**63), 2**63 - 1)
records = st.builds(SimpleRecord, blobs, blobs, timestamps, record_headers)
record_lists = st.lists(records, min_size=1, max_size=12)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)


def oracle_batch(
    oracle: str, records: list[SimpleRecord], *, codec: int = 0, producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytes:
    """Builds with another implementation, which may store data uncompressed if compression does not shrink it."""
    builder = ORACLES[oracle](2, codec, 0, *producer, 2**30)
    for offset, record in enumerate(records):
        metadata = builder.append(
            offset, timestamp=record.timestamp_ms, key=record.key, value=record.value, headers=list(record.headers)
        )
        assert metadata is not None
    return bytes(builder.build())

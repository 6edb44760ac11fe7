"""Kafka's wire protocol: bytes to values and back, without I/O, clocks or randomness.

``messages`` (requests and responses, one module per API) and ``stored`` (the records of Kafka's internal topics)
declare the fields of every version with the means of ``types`` and ``schema``; ``codec`` generates the code that reads
and writes them.  ``headers`` and ``frames`` wrap messages for a connection, ``api_keys`` holds the version table that
the broker advertises, ``errors`` the exceptions and Kafka's error codes, and ``records`` reads and builds record
batches, which all other modules pass through unparsed.

Invariant: for any input bytes, the only exception raised is :class:`odradek.wire.errors.ProtocolError` (in ``records``:
:class:`odradek.wire.records.errors.InvalidRecordBatch`), and no memory is allocated for a length that exceeds the
input.
"""

"""Kafka's wire protocol: bytes to values and back, with no I/O, clock or chance.

``types`` and ``schema`` let ``messages`` (requests and responses, one module per API) and ``stored``
(what Kafka keeps in its internal topics) say what the fields of every version are; ``codec`` generates
the code that reads and writes them.  ``headers`` and ``frames`` wrap messages for a connection,
``api_keys`` holds the version table that the broker advertises, ``errors`` the exceptions and Kafka's
error codes, and ``records`` looks into record batches, which all other modules pass through unread.

Invariant: whatever bytes come in, only :class:`odradek.wire.errors.ProtocolError` comes out, and no memory is
taken for a length that the input does not really have.
"""

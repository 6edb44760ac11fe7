"""The resident memory of a broker's process while many large requests arrive at once (queued.max.request.bytes)."""

from concurrent.futures import ThreadPoolExecutor

from gateway_client import RawClient, batch_of, only, produce_request
from limited_broker import MB, LimitedBroker

from odradek.wire.api_keys import ApiKey
from odradek.wire.headers import encode_request

SENDERS = 80
ALLOWED = 16 * MB
SIZE = 4 * MB - 1000
PRODUCE = (ApiKey.PRODUCE, 12, 1)
MOST = 64 * MB
"""Bound on the growth of the process's memory over its idle state.

It is the sum of the limit, one request above it, the first buffers of all connections (5 MB), LMDB's memory for the
current commit (16 MB), and the same again as a margin. 32 MB were measured, 345 MB without the limit.
"""


def test_the_process_stays_small_while_eighty_large_requests_come_slowly(tmp_path):
    """All clients send half of 4 MB in small parts, then the rest; all are answered, and a kill loses no record."""
    settings = (f"queued.max.request.bytes={ALLOWED}", f"socket.request.max.bytes={8 * MB}")
    arguments = [word for setting in settings for word in ("--set", setting)]
    with LimitedBroker(tmp_path / "data", *arguments) as broker:
        with RawClient(broker.address) as client:
            client.create_topic("t", max_message_bytes=str(8 * MB))
            assert client.produce("t", batch_of(b"opens")).error_code == 0
        idle = broker.memory_bytes()
        assert max(peaks(broker)) - idle < MOST
        broker.kill()
    with LimitedBroker(tmp_path / "data") as broker, RawClient(broker.address) as client:
        assert client.end_offset("t") == SENDERS + 1


def peaks(broker):
    """The process's memory when each sender has sent half, and when it is answered."""
    frame = encode_request(produce_request("t", batch_of(b"v" * SIZE)), *PRODUCE[1:], "raw")
    middle = len(frame) // 2
    senders = [RawClient(broker.address) for _ in range(SENDERS)]

    def begin(sender):
        sender.set_timeout(100)
        for start in range(0, middle, 256 * 1024):
            sender.send_bytes(frame[start : min(start + 256 * 1024, middle)])
        return broker.memory_bytes()

    def end(sender):
        sender.send_bytes(frame[middle:])
        assert only(sender.receive(PRODUCE)).error_code == 0
        return broker.memory_bytes()

    with ThreadPoolExecutor(SENDERS) as pool:
        seen = [*pool.map(begin, senders), *pool.map(end, senders)]
    for sender in senders:
        sender.close()
    return seen

"""What only the waiting room of quiet connections shows; all else it is held to as a transport (`test_network.py`)."""

import socket

import pytest
import trio

from odradek.gateway.net.transport import TcpTransport
from odradek.gateway.net.waiting_room import WaitingRoom, has_epoll


@pytest.mark.skipif(not has_epoll(), reason="there are waiting rooms only where the system has epoll")
async def test_guests_who_speak_on_and_on_leave_turns_to_others(monkeypatch):
    monkeypatch.setattr("odradek.gateway.net.waiting_room.AT_ONCE", 1)
    heard = 0

    def speaks_again(_word: bytes) -> bytes:
        nonlocal heard
        heard += 1
        assert heard < 1000, "nobody else gets a turn"
        here.send(b"on and on")
        return b"yes"

    room, listener = WaitingRoom(), socket.create_server(("127.0.0.1", 0))
    with listener, socket.create_connection(listener.getsockname()) as here:
        transport = TcpTransport(listener.accept()[0], room)
        here.send(b"begin")
        with trio.move_on_after(0.05):
            await transport.receive_unanswered(memoryview(bytearray(1000)), speaks_again)
        transport.close()
        room.close()
    assert heard > 1

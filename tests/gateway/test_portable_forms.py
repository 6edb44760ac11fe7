"""The portable forms that no other test reaches on Linux: sending without sendmsg, paths with drives, interpreters."""

import socket
from pathlib import PurePosixPath, PureWindowsPath

import pytest

from odradek.gateway.data_urls import directory_of_url, local_path, url_of_directory
from odradek.gateway.net.sending import JOINED_BYTES, send_joined
from odradek.interpreter import UnsupportedInterpreterError, check_interpreter

PARTS = [b"", b"a", bytearray(b"bc"), memoryview(bytes(JOINED_BYTES)), b"d", bytes(JOINED_BYTES + 1), b"", b"e"]


def received(sock: socket.socket) -> bytes:
    data = bytearray()
    while part := sock.recv(1 << 20):
        data += part
    return bytes(data)


@pytest.mark.parametrize("window_bytes", [1 << 12, 1 << 22])
def test_joined_parts_arrive_in_order_whatever_the_socket_accepts(window_bytes):
    here, there = socket.socketpair()
    with here, there:
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, window_bytes)
        here.setblocking(False)
        whole = b"".join(PARTS)
        sent, arrived = 0, bytearray()
        while sent < len(whole):
            try:
                sent += send_joined(here, [memoryview(whole)[sent : sent + 1], memoryview(whole)[sent + 1 :]])
            except BlockingIOError:
                arrived += there.recv(1 << 20)
        here.shutdown(socket.SHUT_WR)
        assert bytes(arrived) + received(there) == whole


def test_parts_of_all_sizes_are_sent_whole_by_a_blocking_socket():
    here, there = socket.socketpair()
    with here, there:
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        assert send_joined(here, PARTS) == sum(map(len, PARTS))
        here.shutdown(socket.SHUT_WR)
        assert received(there) == b"".join(PARTS)


@pytest.mark.parametrize(
    ("path", "url"),
    [
        (PurePosixPath("/srv/kafka"), "lmdb:///srv/kafka"),
        (PurePosixPath("/srv/100% #1"), "lmdb:///srv/100%25%20%231"),
        (PureWindowsPath("C:\\Users\\ann b"), "lmdb:///C:/Users/ann%20b"),
    ],
)
def test_a_directory_comes_back_from_its_url(path, url):
    assert url_of_directory(path) == url
    is_windows = isinstance(path, PureWindowsPath)
    assert local_path(directory_of_url(url), has_drives=is_windows) == path.as_posix()


def test_a_path_without_a_drive_stays_as_it_is():
    assert [local_path(text, has_drives=True) for text in ("/srv", "/", "", "/C:/x")] == ["/srv", "/", "", "C:/x"]


def test_a_free_threaded_interpreter_is_refused_with_what_to_do():
    with pytest.raises(UnsupportedInterpreterError, match=r"free-threaded Python.*for example 3\.13 and not 3\.13t"):
        check_interpreter("3.13.1 experimental free-threading build (main, Dec  6 2024) [GCC 13.2.0]")
    check_interpreter("3.13.1 (main, Dec  6 2024) [GCC 13.2.0]")

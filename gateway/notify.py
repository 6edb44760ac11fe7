"""Notifies a service manager of the broker's state by systemd's sd_notify(3), one datagram for each state."""

import logging
import os
import socket
import sys
from typing import Final

from odradek.facilities import has

log = logging.getLogger(__name__)

VARIABLE: Final = "NOTIFY_SOCKET"
READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def notify(state: str, status: str) -> None:
    """Send `state`, and `status` for `systemctl status`, to the socket that NOTIFY_SOCKET names; no effect without one,
    or on a system that has no such sockets.

    Never blocks and never raises: a failure to send is logged, and the broker keeps serving.
    """
    path = os.environ.get(VARIABLE)
    if not path or sys.platform == "win32" or not has("unix_sockets"):
        return
    address = "\0" + path[1:] if path.startswith("@") else path  # an abstract address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)  # noqa: FBT003 - the standard library's name
            channel.sendto(f"{state}\nSTATUS={status}".encode(), address)
    except OSError as error:
        log.warning("cannot notify the service manager state=%s socket=%s (%s) cause=%s", state, path, VARIABLE, error)

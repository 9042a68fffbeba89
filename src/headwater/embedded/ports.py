"""Ports on loopback: whether one is free, who has it, and a free one to take."""

import socket

import psutil

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of loopback now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def a_free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def who_listens(port: int) -> str:
    """The process that listens on a port, in words."""
    try:
        for one in psutil.net_connections(kind="tcp"):
            if one.laddr and one.laddr.port == port and one.status == psutil.CONN_LISTEN and one.pid:
                return f"{psutil.Process(one.pid).name()} (pid {one.pid})"
    except psutil.Error:  # not ours to see, or gone meanwhile
        pass
    return "another process"

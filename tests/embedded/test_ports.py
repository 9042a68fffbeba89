"""Ports of loopback: free ones, taken ones, and who has them."""

import os
import socket

import psutil
import pytest

from headwater.embedded.ports import LOOPBACK, a_free_port, is_free, who_listens


def test_a_free_port_is_free() -> None:
    assert is_free(a_free_port())


def test_a_port_that_somebody_listens_on_is_not_free_and_the_listener_is_named() -> None:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert not is_free(port)
        assert who_listens(port) == f"{psutil.Process().name()} (pid {os.getpid()})"


def test_a_port_that_somebody_listens_on_everywhere_is_not_free() -> None:
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        assert not is_free(listener.getsockname()[1])


def test_a_port_with_connections_that_are_just_closing_is_free() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection((LOOPBACK, port)) as client:
            accepted, _ = listener.accept()
            accepted.close()  # the server's side closes first: its end waits for a minute
            assert client.recv(1) == b""
    assert is_free(port)


def test_a_listener_that_cannot_be_seen_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(**_: object) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", denied)
    assert who_listens(1) == "another process"


def test_a_port_that_nobody_listens_on_has_no_name() -> None:
    assert who_listens(a_free_port()) == "another process"

"""The client of Kafka Connect's REST, against a worker that takes questions and does not answer."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from threading import Thread

import pytest

from headwater.capture import connect
from headwater.capture.connect import Connect
from headwater.errors import ConnectUnreachable

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n["shop"]'


class Worker:
    """Takes every question, and leaves so many without an answer."""

    def __init__(self, silent: int) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.asked: list[bytes] = []
        self.silent, self._held = silent, list[socket.socket]()
        Thread(target=self._take, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def _take(self) -> None:
        while True:
            try:
                taken, _ = self.socket.accept()
            except OSError:  # the test is over
                return
            self.asked.append(taken.recv(4096).split(b"\r\n")[0])
            self._held.append(taken)  # closed, it would be an answer of a kind
            if len(self.asked) > self.silent:
                taken.sendall(ANSWER)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setattr(connect, "_TRY_WITHIN", timedelta(seconds=0.3))
    monkeypatch.setattr(connect, "_ANSWER_WITHIN", timedelta(seconds=2))
    found = Worker(silent=2)
    yield found
    found.socket.close()


def test_a_question_that_a_starting_worker_has_lost_is_asked_again(worker: Worker) -> None:
    assert Connect(worker.url).names() == ["shop"]
    assert len(worker.asked) >= 3
    assert set(worker.asked) == {b"GET /connectors HTTP/1.1"}


def test_what_changes_something_is_not_said_twice(worker: Worker) -> None:
    with pytest.raises(ConnectUnreachable, match="does not answer"):
        Connect(worker.url).pause("shop")
    assert worker.asked == [b"PUT /connectors/shop/pause HTTP/1.1"]


def test_a_worker_that_never_answers_is_given_up(worker: Worker) -> None:
    worker.silent = 1_000
    with pytest.raises(ConnectUnreachable, match="does not answer"):
        Connect(worker.url).names()
    assert len(worker.asked) > 1

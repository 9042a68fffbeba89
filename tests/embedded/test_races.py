"""A port that somebody else got: whose answer counts, and what becomes of the one who lost it."""

import dataclasses
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from tests.embedded.toy import NEVER_ANSWERS, Toy, begin, processes, write_record

from headwater.embedded import server as module
from headwater.embedded.ports import LOOPBACK, a_free_port
from headwater.embedded.server import Place, serves
from headwater.errors import PortTaken, ServerFailed
from headwater.settings import Settings

SOON = timedelta(seconds=20)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Raced(Toy):
    """Somebody takes the port between our look and the server's, this many times."""

    times: int
    held: list[socket.socket] = dataclasses.field(default_factory=list)

    def prepare(self, place: Place) -> list[str | Path]:
        if len(self.held) < self.times:
            listener = socket.socket()
            listener.bind((LOOPBACK, place.ports["main"]))
            listener.listen()
            self.held.append(listener)
        return list(super().prepare(place))

    def answers(self, port: int) -> bool:
        return port in self.lost or super().answers(port)  # who took it is a server of the same kind

    @property
    def lost(self) -> set[int]:
        return {one.getsockname()[1] for one in self.held}

    def let_go(self) -> None:
        for one in self.held:
            one.close()


@contextmanager
def raced(times: int) -> Iterator[Raced]:
    made = Raced(usual_port=a_free_port(), times=times)
    try:
        yield made
    finally:
        made.let_go()


def test_a_port_lost_in_a_race_is_tried_again_with_another(settings: Settings) -> None:
    with raced(times=2) as toy:
        started = begin(toy, settings)
        assert started.port not in toy.lost
        assert toy.answers(started.port)
        assert processes(settings) == [started.pid]


def test_an_insisted_port_lost_in_a_race_is_refused_and_its_holder_named(settings: Settings) -> None:
    with raced(times=1) as toy, pytest.raises(PortTaken, match=rf"\(pid {os.getpid()}\)"):
        begin(toy, dataclasses.replace(settings, kafka_port=a_free_port()))
    assert processes(settings) == []


@pytest.mark.parametrize(
    "words",
    [
        "ERROR Socket server failed to bind to 127.0.0.1:1: Address already in use.",
        "Caused by: java.net.BindException: Permission denied",
        "ERROR Port 1 seems to be in use by another process. Quarkus may already be running",
        "ERROR Address already in use\n" + "ERROR and then this\n" * 20,
    ],
)
def test_a_lost_port_is_known_by_the_words_of_every_server_wherever_they_stand(
    toy: Toy, settings: Settings, words: str
) -> None:
    once = (
        "import pathlib, sys\nfile = pathlib.Path('tried')\nif not file.exists():\n"
        f"    file.touch(); print({words!r}); sys.exit(1)\n"
    )
    assert serves(toy, begin(dataclasses.replace(toy, program=once + toy.program), settings))


def test_the_answer_of_a_stranger_on_its_port_is_not_a_servers_own(
    toy: Toy, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = begin(toy, dataclasses.replace(settings, home=settings.home.parent / "other"))
    try:
        silent = dataclasses.replace(toy, program=NEVER_ANSWERS)
        monkeypatch.setattr(module, "is_free", lambda _: True)
        monkeypatch.setattr(module, "START_WITHIN", timedelta(seconds=1))
        with pytest.raises(ServerFailed, match="toy did not answer within 1 s"):
            begin(silent, settings)
        assert toy.answers(stranger.port)
    finally:
        stranger.identity.stop(SOON)


def test_a_running_server_whose_port_answers_for_somebody_else_is_not_taken_for_up(
    toy: Toy, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = begin(toy, dataclasses.replace(settings, home=settings.home.parent / "other"))
    try:
        started = begin(dataclasses.replace(toy, usual_port=a_free_port()), settings)
        write_record(settings, json.dumps(dataclasses.asdict(started) | {"port": stranger.port}))
        monkeypatch.setattr(module, "START_WITHIN", timedelta(milliseconds=300))
        with pytest.raises(ServerFailed, match="toy did not answer"):
            begin(toy, settings)
    finally:
        stranger.identity.stop(SOON)


def test_a_race_that_is_lost_every_time_ends_with_the_servers_own_words(settings: Settings) -> None:
    with raced(times=3) as toy, pytest.raises(ServerFailed, match="Address already in use"):
        begin(toy, settings)
    assert processes(settings) == []

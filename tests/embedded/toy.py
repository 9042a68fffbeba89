"""A toy server: a few lines of Python that answer over HTTP, or fail in the way that a test asks for."""

import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.embedded.ports import LOOPBACK
from headwater.embedded.process import started_for
from headwater.embedded.server import EndsOn, Place, Running, start
from headwater.settings import Settings

SERVES = """
import socket, sys
from http.server import HTTPServer, SimpleHTTPRequestHandler
class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_): pass
class Plain(HTTPServer):
    def server_bind(self):  # without the look-up of our own name
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "toy", self.server_address[1]
Plain(("127.0.0.1", int(sys.argv[1])), Quiet).serve_forever()
"""
ENDS = """
import sys
print("INFO starting"); print("ERROR the moon is in the wrong place"); print("INFO bye")
sys.exit(3)
"""
NEVER_ANSWERS = """
import threading
print("INFO thinking", flush=True)
threading.Event().wait(120)
"""


@dataclass(frozen=True, kw_only=True)
class Toy:
    """A server whose program is given; it must be told a usual port that is free."""

    usual_port: int
    program: str = SERVES
    name: str = "toy"
    bundles: Sequence[str] = ("toy",)
    other_ports: Sequence[str] = ("side",)
    ends_on: EndsOn = "SIGTERM"

    def wanted_port(self, settings: Settings) -> int | None:
        return settings.kafka_port

    def prepare(self, place: Place) -> Sequence[str | Path]:
        place.data.mkdir(exist_ok=True)
        return [sys.executable, "-c", self.program, str(place.ports["main"]), str(place.ports["side"])]

    def answers(self, port: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def begin(toy: Toy, settings: Settings) -> Running:
    return start(toy, settings, lambda *_: None)


def write_record(settings: Settings, text: str) -> None:
    file = settings.home / "toy" / "server.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def processes(settings: Settings) -> list[int]:
    return [one.pid for one in started_for(settings.home / "toy")]

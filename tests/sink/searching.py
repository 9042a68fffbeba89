"""A search server of the tests' own: it says what it is told to say, and notes what it was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Says:
    """What the server answers, one after the other, and what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked, self.headers = list(answers), [], []
        self.url = ""


@contextmanager
def server_that_says(*answers) -> Iterator[Says]:
    """A server; an answer is a status and what is said with it, or None to hang up."""
    told = Says(*answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            length = int(self.headers.get("Content-Length") or 0)
            told.asked.append((self.command, self.path, self.rfile.read(length).decode()))
            told.headers.append(dict(self.headers))
            said = told.answers.pop(0)
            if said is None:
                self.close_connection = True
                return
            status, body = said
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815 - the library's names

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def items(*statuses, error=None):
    """A bulk's answer with these statuses."""
    errors = [error or {"type": "mapper_parsing_exception", "reason": "no"} for _ in statuses]
    return {
        "errors": any(one >= 400 for one in statuses),
        "items": [
            {"index": {"status": one, **({"error": why} if one >= 400 else {})}}
            for one, why in zip(statuses, errors, strict=True)
        ],
    }

"""One pipeline of bench/pipelines_app.py, run to the end of its topics by Headwater."""

import json
import sys
import time
from pathlib import Path

from bench.pipelines_app import app
from headwater import Settings
from headwater.run.runner import running


def main(case: str, home: str, port: str) -> None:
    settings = Settings(home=Path(home), kafka_port=int(port))
    began = time.monotonic()
    with running(app.only([case]), settings, once=True) as supervisor:
        started = time.monotonic()
        supervisor.join()
        seconds = time.monotonic() - started
    for error in supervisor.errors:
        raise SystemExit(str(error))
    batches = [[one.rows, one.batch_ms] for one in supervisor.pipelines[0].history]
    print(json.dumps({"seconds": seconds, "session": started - began, "batches": batches}))


if __name__ == "__main__":
    main(*sys.argv[1:])

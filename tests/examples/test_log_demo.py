"""The demo runs, ends by itself and loses nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples/log/demo.py"


def test_the_demo_ends_by_itself_and_loses_nothing(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    done = subprocess.run(
        [sys.executable, DEMO],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost in all: 0" in done.stdout
    groups = dict(re.findall(r"│ (eager|steady|slow) +│ +([\d,]+) │ +0 │", done.stdout))
    assert len(groups) == 3
    assert len(set(groups.values())) == 1  # every group has done the same payments
    assert done.stderr.strip() == ""

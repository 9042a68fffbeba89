"""The bank's demo runs, is killed once, and accounts for every payment."""

import os
import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples/bank/bank_demo.py"


def test_the_bank_counts_every_payment_once_although_it_is_killed(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    done = subprocess.run(
        [sys.executable, DEMO],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"lost or counted twice +0\b", done.stdout), done.stdout

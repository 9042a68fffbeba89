"""The bank's demo runs, is killed once, and accounts for every record, alert and copied row."""

import os
import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples/bank/bank_demo.py"


def test_the_bank_accounts_for_every_record_alert_and_copied_row_although_it_is_killed(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    done = subprocess.run(
        [sys.executable, DEMO, "--seconds", "8"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"lost, doubled or in the wrong place +0\n", done.stdout), done.stdout
    assert re.search(r"missing, false or told twice +0\n", done.stdout), done.stdout
    assert len(re.findall(r"rows of the \d+ in the table that differ in \w+ +0\n", done.stdout)) == 2

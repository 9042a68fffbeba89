"""run and explain as a user types them: the app in a file, figures in three forms, stopping, errors."""

import json
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import as_json, assert_refused, begun
from tests.cli.conftest import Headwater

from headwater import Log, Topic
from headwater.clock import wait_until

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("spark")]
A_WHILE = timedelta(seconds=120)

BANK = """
from datetime import timedelta
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType
from headwater import App, Bounded, Drop, KafkaSink, Pipeline, Topic
from rates import FACTOR

PAYMENTS = Topic("{name}-in", schema="card string, amount double, paid_at timestamp", key="card",
                 event_time="paid_at", partitions=2)
DOUBLED = Topic("{name}-doubled", schema="card string, amount double", key="card", partitions=2)
COUNTED = Topic("{name}-counted", schema="card string, payments long", key="card", partitions=2)

@F.udf(returnType=DoubleType())
def times(amount):
    return amount * FACTOR

app = App(
    "{name}",
    Pipeline("doubled", lambda rows: rows.withColumn("amount", times("amount")), reads=[PAYMENTS],
             writes=KafkaSink(DOUBLED)),
    Pipeline("counted", sql="SELECT card, count(*) AS payments FROM {table} "
             "GROUP BY window(paid_at, '1 minute'), card", reads=[PAYMENTS], writes=KafkaSink(COUNTED),
             watermark=Bounded(timedelta(0)), late=Drop()),
)
"""


@pytest.fixture
def bank(tmp_path: Path, short: str) -> Path:
    """bank.py with an app of two pipelines, and the module beside it that it imports."""
    file = tmp_path / "bank.py"
    file.write_text(BANK.format(name=short, table=f"{short}_in".replace("-", "_")))
    (tmp_path / "rates.py").write_text("FACTOR = 2.0\n")
    return file


@pytest.fixture
def short(name: str) -> str:
    return f"bank-{name.rpartition('-')[2]}"


def pay(log: Log, short: str, count: int) -> None:
    topic = Topic(f"{short}-in", schema="card string, amount double", key="card", partitions=2)
    if topic.name not in log.topics.names():
        log.topics.create(topic)
    with log.writer() as writer:
        for number in range(count):
            value = {"card": "42", "amount": number, "paid_at": f"2026-01-01T00:0{number % 10}:00Z"}
            writer.append_bytes(topic.name, json.dumps(value).encode(), key=b"42")


def values(log: Log, topic: str) -> list[dict[str, Any]]:
    if topic not in log.topics.names():
        return []
    return [json.loads(record.value) for record in log.read(topic)]


def test_once_reads_what_is_there_and_tells_it_in_json(headwater: Headwater, log, bank, short):
    pay(log, short, 10)
    done = headwater("run", bank, "--once", "--json")
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    last = {one["pipeline"]: one for one in told}
    assert {name: one["state"] for name, one in last.items()} == {"doubled": "done", "counted": "done"}
    assert last["doubled"]["rows"] == 10
    assert last["counted"]["watermark"] == "2026-01-01T00:09:00+00:00"
    assert sorted(one["amount"] for one in values(log, f"{short}-doubled")) == [2.0 * n for n in range(10)]
    assert len(values(log, f"{short}-counted")) == 9


def test_only_chooses_and_plain_prints_lines_for_a_log(headwater: Headwater, log, bank, short):
    pay(log, short, 3)
    done = headwater("run", bank, "--once", "--plain", "--only", "doubled")
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert " doubled done batch=0 rows=3 " in last
    assert "counted" not in done.stdout


def test_a_signal_finishes_the_batch_in_hand_and_the_next_run_goes_on(env, tmp_path, log, bank, short):
    pay(log, short, 5)
    with begun("run", bank, "--only", "doubled", "--json", folder=tmp_path, env=env) as process:
        assert wait_until(lambda: len(values(log, f"{short}-doubled")) == 5, A_WHILE)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "finishing the batch in hand" in err
    assert json.loads(out.splitlines()[-1])["state"] in ("running", "stopped")
    pay(log, short, 2)
    with begun("run", bank, "--only", "doubled", "--once", folder=tmp_path, env=env) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert len(values(log, f"{short}-doubled")) == 7


def test_a_failed_pipeline_makes_the_exit_code_1_and_tells_why(headwater: Headwater, log, bank, short):
    pay(log, short, 2)
    bank.write_text(bank.read_text().replace("amount * FACTOR", "amount / (FACTOR - FACTOR)"))
    done = headwater("run", bank, "--once", "--plain", "--only", "doubled")
    assert done.returncode == 1
    assert "error: pipeline 'doubled' failed [pipeline-failed]" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr
    assert " doubled failed " in done.stdout


class TestMistakes:
    def test_a_file_that_is_not_there(self, headwater: Headwater):
        assert_refused(headwater("run", "none.py"), "bad-pipeline", "there is no file none.py")

    def test_a_file_without_an_app(self, headwater: Headwater, tmp_path):
        (tmp_path / "empty.py").write_text("")
        assert_refused(headwater("run", "empty.py"), "bad-pipeline", "which app of empty.py?")

    def test_a_file_with_several_apps_wants_a_name(self, headwater: Headwater, bank):
        bank.write_text(bank.read_text() + "\nother = App('other', *app.pipelines)\n")
        assert_refused(headwater("run", bank), "bad-pipeline", "its apps: app, other")

    def test_an_unknown_pipeline(self, headwater: Headwater, bank):
        done = headwater("run", bank, "--only", "tripled")
        assert_refused(done, "bad-pipeline", "has no pipeline 'tripled'", "its pipelines: doubled, counted")

    def test_a_file_that_fails_is_told_with_its_line(self, headwater: Headwater, tmp_path):
        (tmp_path / "broken.py").write_text("\n1 / 0\n")
        assert_refused(headwater("run", "broken.py"), "bad-pipeline", "line 2: ZeroDivisionError")

    def test_a_udf_whose_type_is_a_text_is_told_how_to_be_written(self, shell: Headwater, bank):
        bank.write_text(bank.read_text().replace("returnType=DoubleType()", '"double"'))
        done = shell("explain", bank)
        assert done.returncode == 1
        assert "an app is read without Spark" in done.stderr

    def test_without_a_broker_it_says_how_to_start_one(self, shell: Headwater, tmp_path, bank):
        done = shell("run", bank, env={"HEADWATER_HOME": str(tmp_path / "nowhere")})
        assert done.returncode == 1
        assert "headwater up" in done.stderr


class TestExplain:
    def test_it_tells_guarantee_state_and_what_keeps_from_real_time(self, headwater: Headwater, bank):
        done = headwater("explain", bank)
        assert done.returncode == 0, done.stderr
        doubled, counted = done.stdout.split("\n\n")
        assert "exactly-once, because each slice of a batch is one Kafka transaction" in doubled
        assert "state      none" in doubled
        assert "a Python UDF" in doubled
        assert "state      aggregation" in counted
        assert 'possible: latency="real-time"' in counted

    def test_the_plan_is_shown_when_asked_for_and_all_of_it_as_json(self, headwater: Headwater, bank):
        assert "Aggregate" in headwater("explain", bank, "--only", "counted", "--plan").stdout
        (found,) = as_json(headwater("explain", bank, "--only", "counted", "--json"))
        assert found["stateful"] == ["aggregation"]
        assert found["writes"][0]["guarantee"] == "exactly-once"
        assert "Aggregate" in found["plan"]

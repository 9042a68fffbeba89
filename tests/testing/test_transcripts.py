"""Every transcript is what happens, and one that is not is told with the line and the difference."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cli.command import assert_refused, called
from tests.testing.rehearsing import TRANSCRIPTS

from headwater.errors import BadTranscript
from headwater.testing import Transcript, recite

FILES = sorted(TRANSCRIPTS.glob("*.yaml"))
WRONG = f"""title: A wrong one
shows: That it is told.
app: {TRANSCRIPTS}/bank.py
pipeline: diverting
begins: 2026-01-01T10:00:00Z
steps:
  - feed:
      payments:
        - {{card: a, amount: 5, paid_at: 10:00:01}}
        - null
  - watermark: 10:01:00
  - watermark is: 10:02:00
  - expect:
      - {{opened_at: 10:00:00, payments: 2}}
  - feed:
      payments:
        - {{card: b, amount: 5, paid_at: 10:00:02}}
"""
TOLD = """line 12: the watermark is elsewhere
  expected: 10:02:00
  found:    10:01:00
line 13: not what 'expect' says
  expected, and not there:  {opened_at: 10:00:00, payments: 2}
  there, and not expected:  {opened_at: 10:00:00, payments: 1}
line 15: the transcript ends, and rows were diverted that nothing expects
  there, and not expected:  {topic: payments, card: b, amount: 5, paid_at: 10:00:02, missed: [10:00:00 to 10:01:00]}
line 15: the transcript ends, and records were dead that nothing expects
  there, and not expected:  {topic: payments, value: null, reason: it has no value}"""  # noqa: E501

FAILING = """
from pyspark.sql import functions as F
from headwater import App, KafkaSink, Pipeline, Topic

PAYMENTS = Topic("payments", schema="card string, amount double, paid_at timestamp")


def failing(payments):
    return payments.select(F.udf(lambda amount: amount / 0.0, "double")("amount").alias("n"))


sink = KafkaSink(Topic("n", schema="n double"))
app = App("bank", Pipeline("diverting", failing, reads=[PAYMENTS], writes=sink))
"""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_a_transcript_says_is_what_happens(file: Path, spark: SparkSession) -> None:
    assert "\n".join(map(str, recite(Transcript.read(file), spark))) == ""


def test_a_wrong_transcript_is_told_with_lines_and_differences(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(WRONG)
    assert "\n".join(map(str, recite(Transcript.read(file), spark))) == TOLD


def test_a_step_that_cannot_be_is_told_with_its_line(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(WRONG.replace("watermark is: 10:02:00", "watermark: 09:00:00"))
    with pytest.raises(BadTranscript, match=r"wrong.yaml:12: the watermark is at .* does not go back"):
        recite(Transcript.read(file), spark)


def test_a_pipeline_that_fails_is_told_with_the_line_of_the_step(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    file = tmp_path / "failing.yaml"
    file.write_text(WRONG.replace(f"{TRANSCRIPTS}/bank.py", "failing.py"))
    told = "line 7: the pipeline fails\n  ZeroDivisionError: float division by zero"
    assert "\n".join(map(str, recite(Transcript.read(file), spark))) == told


@pytest.mark.usefixtures("spark")
def test_the_command_plays_transcripts_and_fails_when_one_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG)
    done = called("rehearse", TRANSCRIPTS / "dead.yaml", "wrong.yaml", folder=tmp_path)
    assert done.returncode == 1
    good, bad, *told = done.stdout.splitlines()
    assert good.startswith("ok      ")
    assert good.endswith("dead.yaml: A record that cannot be read is a dead letter, and moves nothing")
    assert (bad, [one[8:] for one in told]) == ("FAILED  wrong.yaml: A wrong one", TOLD.splitlines())


@pytest.mark.usefixtures("spark")
def test_the_command_tells_programs_in_json(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG)
    done = called("rehearse", TRANSCRIPTS / "dead.yaml", "wrong.yaml", "--json", folder=tmp_path)
    good, bad = map(json.loads, done.stdout.splitlines())
    assert (good["holds"], good["mismatches"], bad["holds"]) == (True, [], False)
    assert bad["mismatches"][0] == {
        "line": 12,
        "what": "the watermark is elsewhere",
        "difference": "expected: 10:02:00\nfound:    10:01:00",
    }


def test_the_command_refuses_what_is_no_transcript(tmp_path: Path) -> None:
    assert_refused(called("rehearse", "no.yaml", folder=tmp_path), "bad-transcript", "no.yaml cannot be read")

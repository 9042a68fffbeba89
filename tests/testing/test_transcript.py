"""Transcripts as files: what can be understood, and the line of what cannot."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.errors import BadTranscript
from headwater.testing import Transcript
from headwater.testing.transcript import Advance, Expect, Feed, Silence, WatermarkIs

HEAD = "title: T\nshows: S\napp: bank.py\npipeline: per-minute\n"
STEPS = f"{HEAD}begins: 2026-01-01T10:00:00Z\nsteps:\n"
TEN = datetime(2026, 1, 1, 10, tzinfo=UTC)


def written(folder: Path, text: str) -> Path:
    file = folder / "t.yaml"
    file.write_text(text)
    return file


def test_a_transcript_is_read_step_by_step_with_its_lines(tmp_path: Path) -> None:
    text = f"""{STEPS}  - feed:
      payments:
        - {{card: a, amount: 1.5, n: 2, paid_at: 10:00:01, ok: true, no: null, yes: yes}}
        - no JSON
    partition: 1
    repeat: 2
  - watermark: 10:01:00
  - silence: 1.5 hours
  - watermark is: null
  - watermark is: 2026-01-02T00:00:00Z
  - late: []
"""
    read = Transcript.read(written(tmp_path, text))
    row = {"card": "a", "amount": 1.5, "n": 2, "paid_at": "10:00:01", "ok": True, "no": None, "yes": "yes"}
    assert (read.title, read.app, read.pipeline, read.begins) == ("T", "bank.py", "per-minute", TEN)
    assert read.steps == (
        Feed(7, "payments", (row, "no JSON") * 2, 1),
        Advance(13, TEN + timedelta(minutes=1)),
        Silence(14, timedelta(hours=1.5)),
        WatermarkIs(15, None),
        WatermarkIs(16, datetime(2026, 1, 2, tzinfo=UTC)),
        Expect(17, "late", ()),
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "t.yaml is empty", ""),
        ("a: [", "t.yaml:1 is not YAML", ""),
        ("- a", "t.yaml:1: a transcript must be a mapping, `name: value`", ""),
        ("title: T", "t.yaml:1: a transcript lacks 'shows'", ""),
        (f"{HEAD}titel: x\nsteps: []", "t.yaml:5: a transcript has no 'titel'", "it may have: title, shows"),
        (HEAD.replace("T", "[]") + "steps: []", "t.yaml:1: title must be a text", ""),
        (
            HEAD + "begins: noon\nsteps: []",
            "t.yaml:5: this is no moment",
            "10:00:05, or 2026-01-01T10:00:05Z",
        ),
        (HEAD + "steps: none", "t.yaml:5: steps must be a list, each item behind a dash", ""),
        (STEPS + "  - feeds: x", "t.yaml:7: a step has no 'feeds'", "it may have: feed, watermark, silence"),
        (STEPS + "  - {}", "t.yaml:7: a step does one thing", "one of: feed, watermark, silence"),
        (STEPS + "  - {late: [], dead: []}", "t.yaml:7: a step does one thing", ""),
        (STEPS + "  - {late: [], repeat: 2}", "t.yaml:7: partition and repeat belong to feed", ""),
        (STEPS + "  - silence: long", "t.yaml:7: this is no duration", "30 seconds, 5 minutes, 1 hour"),
        (STEPS + "  - watermark: '10'", "t.yaml:7: this is no moment", ""),
        (STEPS + "  - watermark: 2026-02-31T10:00:00Z", "t.yaml:7: this is no moment", ""),
        (STEPS + "  - feed: {a: [], b: []}", "t.yaml:7: feed names one topic", "write a step for each"),
        (STEPS + "  - feed:\n      a:\n        - 5", "t.yaml:9: a row is a mapping", ""),
        (STEPS + "  - feed: {a: []}\n    repeat: -1", "t.yaml:8: repeat must be a whole number from 0", ""),
        (STEPS + "  - expect: [5]", "t.yaml:7: a row of expect must be a mapping", ""),
        (STEPS + "  - expect:\n    - {a: !python x}", "t.yaml:8: this cannot be read", ""),
    ],
)
def test_what_cannot_be_understood_is_told_with_its_line(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    with pytest.raises(BadTranscript) as error:
        Transcript.read(written(tmp_path, text))
    assert message in error.value.message
    assert hint in error.value.hint


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTranscript, match=r"nowhere.yaml cannot be read"):
        Transcript.read(tmp_path / "nowhere.yaml")

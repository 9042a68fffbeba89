"""Every transcript is what happens."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.testing import Transcript, recite

FILES = sorted((Path(__file__).parents[1] / "transcripts").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_a_transcript_says_is_what_happens(file: Path, spark: SparkSession) -> None:
    assert "\n".join(map(str, recite(Transcript.read(file), spark))) == ""

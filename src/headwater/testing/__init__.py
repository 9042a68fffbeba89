"""Testing with virtual time: any pipeline on a real Spark query, without Kafka, at the pace of the test.

`rehearse` puts a pipeline on a stage: rows are fed, the watermark is advanced, silence passes, and the stage
tells which rows came out, which were late and which were bad. A `Transcript` is the same as a file that
people who do not program can read, and `recite` plays it.
"""

from headwater.testing.account import Counts
from headwater.testing.recital import Mismatch, recite
from headwater.testing.session import quick_session
from headwater.testing.stage import DeadRow, LateRow, Stage, rehearse
from headwater.testing.transcript import Transcript

__all__ = [
    "Counts",
    "DeadRow",
    "LateRow",
    "Mismatch",
    "Stage",
    "Transcript",
    "quick_session",
    "recite",
    "rehearse",
]

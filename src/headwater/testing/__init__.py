"""Testing with virtual time: any pipeline on a real Spark query, without Kafka, at the pace of the test.

`rehearse` puts a pipeline on a stage: rows are fed, the watermark is advanced, silence passes, and the stage
tells which rows came out, which were late and which were bad.
"""

from headwater.testing.account import Counts
from headwater.testing.session import quick_session
from headwater.testing.stage import DeadRow, LateRow, Stage, rehearse

__all__ = ["Counts", "DeadRow", "LateRow", "Stage", "quick_session", "rehearse"]

"""Headwater: streaming in Python on Apache Spark that keeps every promise of the textbook."""

from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.log.positions import Beginning, End, Last, Offset, Since
from headwater.log.topic import FOREVER, Retention, Topic
from headwater.settings import Settings

__all__ = [
    "FOREVER",
    "Beginning",
    "End",
    "HeadwaterError",
    "Last",
    "Log",
    "Offset",
    "Retention",
    "Settings",
    "Since",
    "Topic",
]

__version__ = "0.1.0"

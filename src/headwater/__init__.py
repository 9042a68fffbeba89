"""Headwater: streaming in Python on Apache Spark that keeps every promise of the textbook."""

from headwater.app import App, Pipeline, Source
from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.log.positions import Beginning, End, Last, Offset, Since
from headwater.log.topic import FOREVER, Retention, Topic
from headwater.process.event_time import Adaptive, Bounded, Divert, Drop, Grace, Monotonic, Punctuated
from headwater.process.sliding import sliding
from headwater.settings import Settings
from headwater.sink.calls import Calls
from headwater.sink.kafka import KafkaSink

__all__ = [
    "FOREVER",
    "Adaptive",
    "App",
    "Beginning",
    "Bounded",
    "Calls",
    "Divert",
    "Drop",
    "End",
    "Grace",
    "HeadwaterError",
    "KafkaSink",
    "Last",
    "Log",
    "Monotonic",
    "Offset",
    "Pipeline",
    "Punctuated",
    "Retention",
    "Settings",
    "Since",
    "Source",
    "Topic",
    "sliding",
]

__version__ = "0.1.0"

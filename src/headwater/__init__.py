"""Headwater: streaming in Python on Apache Spark that keeps every promise of the textbook."""

from headwater.app import App, Pipeline, Source
from headwater.capture.database import Database
from headwater.capture.outbox import Outbox
from headwater.capture.table import Table, upserts
from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.log.positions import Beginning, End, Last, Offset, Since
from headwater.log.topic import FOREVER, Retention, Topic
from headwater.process.event_time import (
    Adaptive,
    Bounded,
    Divert,
    Drop,
    Grace,
    Monotonic,
    Punctuated,
    Refire,
)
from headwater.process.panes import AfterCount, AtWatermark, Every
from headwater.process.sliding import sliding
from headwater.process.windowed import windowed
from headwater.process.windows import Global, Hopping, Session, Tumbling, Windower
from headwater.settings import Settings
from headwater.sink.calls import Calls
from headwater.sink.kafka import KafkaSink
from headwater.sink.postgres import PostgresSink
from headwater.sink.redis import RedisSink
from headwater.sink.search import SearchSink

__all__ = [
    "FOREVER",
    "Adaptive",
    "AfterCount",
    "App",
    "AtWatermark",
    "Beginning",
    "Bounded",
    "Calls",
    "Database",
    "Divert",
    "Drop",
    "End",
    "Every",
    "Global",
    "Grace",
    "HeadwaterError",
    "Hopping",
    "KafkaSink",
    "Last",
    "Log",
    "Monotonic",
    "Offset",
    "Outbox",
    "Pipeline",
    "PostgresSink",
    "Punctuated",
    "RedisSink",
    "Refire",
    "Retention",
    "SearchSink",
    "Session",
    "Settings",
    "Since",
    "Source",
    "Table",
    "Topic",
    "Tumbling",
    "Windower",
    "sliding",
    "upserts",
    "windowed",
]

__version__ = "0.1.0"

"""KafkaSink: the rows of a pipeline as records of a topic, under the guarantee that was chosen.

- `exactly-once`: each slice of a batch is one Kafka transaction with a marker in it, see `transactions`.
  Committed readers (all of Headwater's are) see every row once.
- `at-least-once`: Spark's own Kafka sink, tuned. A batch that is tried again is written again.
- `at-most-once`: the batch is marked as written before it is; what fails afterwards is lost.
"""

from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater import embedded
from headwater.log.connection import Connection
from headwater.log.topic import Topic
from headwater.settings import Settings
from headwater.sink.agreement import agree, refuse_passed
from headwater.sink.columns import check_columns
from headwater.sink.contract import Batch, Guarantee
from headwater.sink.encode import encoded, encoder, prepared
from headwater.sink.failures import as_raised_in_tasks
from headwater.sink.markers import WHOLE, Marker, Markers
from headwater.sink.slices import Slices
from headwater.sink.transactions import Job

_TUNED = {"kafka.linger.ms": "50", "kafka.batch.size": "262144"}


@dataclass(frozen=True)
class KafkaSink:
    """A topic as a pipeline's output."""

    topic: Topic
    guarantee: Guarantee = field(default="exactly-once", kw_only=True)

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.topic.name

    def check(self, columns: StructType) -> None:
        """Refuse columns that are not the topic's; those that it does not know are left out."""
        check_columns(columns, self.topic)

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Write one batch, under the sink's guarantee."""
        with as_raised_in_tasks():
            match self.guarantee:
                case "exactly-once":
                    _write_once(rows, self.topic, batch)
                case "at-least-once":
                    _write(rows, self.topic, batch.settings)
                case "at-most-once":
                    _write_at_most_once(rows, self.topic, batch)


def sink_group(batch: Batch, topic: Topic) -> str:
    """The consumer group in which a sink keeps its markers."""
    return f"{batch.pipeline}.to.{topic.name}"


def _write(rows: DataFrame, topic: Topic, settings: Settings) -> None:
    options = _TUNED | Connection(settings).for_spark()
    records = encoded(rows, topic, embedded.anywhere(settings))
    records.write.format("kafka").options(**options).option("topic", topic.name).save()


def _write_at_most_once(rows: DataFrame, topic: Topic, batch: Batch) -> None:
    markers = Markers(Connection(batch.settings), sink_group(batch, topic))
    known, wanted = markers.read([WHOLE]), Marker(batch.query, batch.number, "whole")
    if known.get(WHOLE) == wanted:
        _compute(rows)
        return
    refuse_passed(known, batch, markers.group)
    markers.make_room(0)
    markers.set(WHOLE, batch.number + 1, wanted)
    _write(rows, topic, batch.settings)


def _compute(rows: DataFrame) -> None:
    """Run what is not written, too: state is saved when its rows are read."""
    rows.write.format("noop").mode("overwrite").save()


def _write_once(rows: DataFrame, topic: Topic, batch: Batch) -> None:
    connection = Connection(batch.settings)
    markers = Markers(connection, sink_group(batch, topic))
    slices = agree(rows, batch, markers, connection)
    settings = embedded.anywhere(batch.settings)
    job = Job(
        settings=settings,
        topic=topic.name,
        group=markers.group,
        slices=slices.slices,
        marker=Marker(batch.query, batch.number, slices.scheme),
        encode=encoder(None if slices.is_hashed else topic, settings),
    )
    _cut(rows, topic, slices, settings).mapInArrow(job, "written long").collect()


def _cut(rows: DataFrame, topic: Topic, slices: Slices, settings: Settings) -> DataFrame:
    """The rows with one partition for each slice."""
    if not slices.is_hashed:
        return prepared(rows, topic)
    count = len(slices.slices)
    records = encoded(rows, topic, settings)
    by = F.col("value") if topic.key is None else F.col("key")
    return records.repartition(count, by).withColumn("slice", F.pmod(F.hash(by), F.lit(count)))

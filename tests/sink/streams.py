"""Streaming queries for the tests of sinks: a topic in, a function, a sink out, as a pipeline runs them."""

from uuid import uuid4

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from headwater import Topic, embedded
from headwater.sink.contract import Batch

EVENTS = "n long, k string, at timestamp"


def events(log, name, rows=400, partitions=4) -> Topic:
    """A topic with events n = 0, 1, …, one for each second, over ten keys."""
    topic = Topic(f"{name}-events", schema=EVENTS, key="k", event_time="at", partitions=partitions)
    log.topics.create(topic)
    with log.writer() as writer:
        for n in range(rows):
            at = f"2026-01-01T00:{n // 60 % 60:02}:{n % 60:02}Z"
            writer.append_bytes(
                topic.name, b'{"n":%d,"k":"k%d","at":"%s"}' % (n, n % 10, at.encode()), key=b"%d" % n
            )
    return topic


def stream(spark, system, topic, a_batch=200, **options):
    """The topic's rows as a streaming DataFrame."""
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", embedded.kafka_address(system))
        .option("subscribe", topic.name)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", a_batch)
        .options(**options)
        .load()
    )
    return raw.select(F.from_json(F.col("value").cast("string"), EVENTS).alias("row")).select("row.*")


def run(rows, write, checkpoint, mode="append", last=None):
    """Run a query over what there is; gives the error that ended it, or None.

    `last` is the number of the batch after which it stops.
    """
    query_id = []

    def each(found, number):
        if last is not None and number > last:
            raise InterruptedError("enough")
        query_id[:] = [found.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""]
        write(found, number, query_id[0])

    query = (
        rows.writeStream.foreachBatch(each)
        .outputMode(mode)
        .trigger(availableNow=True)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        return None if "enough" in str(error) else error
    return None


def into(sink, system, pipeline=None):
    """A function that writes batches into a sink, as the pipeline `test.p`."""
    name = pipeline or f"test.{uuid4().hex[:8]}"
    return lambda rows, number, query: sink.write(rows, Batch(name, number, query, system))

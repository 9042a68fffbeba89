"""What Spark does not run in real time, in the words in which people write it, and what to do instead."""

from dataclasses import dataclass

MICRO_BATCH = 'latency="micro-batch" runs it'


@dataclass(frozen=True)
class Refusal:
    """What keeps a plan from real time: the operator as people write it, why, and what to do."""

    operator: str
    why: str
    instead: str


_PYTHON = "rows would wait until a block for Python is full"
_OWN = "write it with Spark's own functions, or in SQL"
_WHOLE = "it needs all rows before it can give the first"
_BROADCAST = "join with F.broadcast(table): it must fit in memory"
BY_OPERATOR = {
    "EvalPython": Refusal("a Python UDF", _PYTHON, _OWN),
    "MapInArrow": Refusal("mapInArrow", _PYTHON, _OWN),
    "MapInPandas": Refusal("mapInPandas", _PYTHON, _OWN),
    "InPandasWithState": Refusal("applyInPandasWithState", _PYTHON, MICRO_BATCH),
    "TransformWithStateInPySpark": Refusal("transformWithState in Python", _PYTHON, MICRO_BATCH),
    "FlatMapGroupsIn": Refusal("applyInPandas", _PYTHON, MICRO_BATCH),
    "AggregatePython": Refusal("an aggregation in Python", _PYTHON, _OWN),
    "Session": Refusal(
        "a session window",
        "a session may still grow and merge",
        f"count in tumbling windows, or {MICRO_BATCH}",
    ),
    "StreamingSymmetricHashJoin": Refusal(
        "a join of two streams", "both sides are kept until the other arrives", MICRO_BATCH
    ),
    "SortMergeJoin": Refusal("a join with a large table", "it sorts both sides", _BROADCAST),
    "ShuffledHashJoin": Refusal("a join with a large table", "it reads one side whole", _BROADCAST),
    "BroadcastNestedLoopJoin": Refusal(
        "a join without an equality",
        "each row is held against every row of the table",
        f"join on equal columns and filter afterwards, or {MICRO_BATCH}",
    ),
    "CartesianProduct": Refusal("a join without an equality", "it pairs all rows", _BROADCAST),
    "StreamingDeduplicateWithinWatermark": Refusal(
        "dropDuplicatesWithinWatermark",
        "Spark has no real-time form of it",
        "dropDuplicates over the key and the event time",
    ),
    "Sort": Refusal("a sort", _WHOLE, "sort where the output is read"),
    "TakeOrderedAndProject": Refusal("a sort with a limit", _WHOLE, "sort where the output is read"),
    "Limit": Refusal("a limit", "a stream has no end to count up to", "filter instead"),
    "Coalesce": Refusal("coalesce", "one task cannot wait for several partitions", "repartition(n)"),
    "ShuffleExchange": Refusal(
        "repartitionByRange", "the ranges come from a sample of all rows", "repartition(n, column)"
    ),
    "Sample": Refusal("sample", "Spark has no real-time form of it", "filter by F.rand() < fraction"),
}
READ_TWICE = Refusal(
    "a union of a topic with itself",
    "Spark reads each topic once in real time",
    "one select with F.explode(F.array(…)) instead of two, or two pipelines",
)
_TOLD = {
    "STATEFUL_OPERATORS_BEFORE_UNION": Refusal(
        "a union after state",
        "Spark keeps state only behind a union in real time",
        "union first, then the rest",
    ),
    "global watermark": Refusal(
        "several operators with state", "the second would take the first one's changes for rows", MICRO_BATCH
    ),
}


def by_operator(name: str) -> Refusal:
    """The refusal of an operator of Spark's plan, by its class."""
    for part, found in BY_OPERATOR.items():
        if part == name or (part in name and part != "Sort"):
            return found
    return Refusal(f"the operator {name}", "Spark does not allow it in real time", MICRO_BATCH)


def by_message(said: str) -> Refusal:
    """The refusal of a plan as a whole, by what Spark says of it."""
    for part, found in _TOLD.items():
        if part in said:
            return found
    return Refusal("the plan as a whole", said.strip().splitlines()[0], "mend it as Spark says")


def by_output(output: str) -> Refusal:
    """The refusal of rows that are to be written once, when their last change is known."""
    return Refusal(
        f'an aggregation with output="{output}"',
        "in real time a row is written with every change, not once at the end",
        'output="update"',
    )

"""App and Pipeline as values: what is refused when they are made, and that making them starts nothing."""

import subprocess
import sys
from datetime import timedelta

import pytest

from headwater import (
    App,
    Bounded,
    Divert,
    Drop,
    Grace,
    KafkaSink,
    Monotonic,
    Pipeline,
    RedisSink,
    SearchSink,
    Source,
    Topic,
)
from headwater.errors import BadPipeline, SpecError

IN = Topic("in", schema="card string, paid_at timestamp", key="card", event_time="paid_at")
PLAIN = Topic("plain", schema="card string")
OUT = KafkaSink(Topic("out", schema="card string"))
FAST = {"latency": "real-time", "writes": KafkaSink(OUT.topic, guarantee="at-least-once")}
SHORT = Bounded(timedelta(seconds=5))


def same(rows):
    return rows


def made(**changed):
    return Pipeline(**{"name": "p", "function": same, "reads": [IN], "writes": OUT} | changed)


def test_a_pipeline_is_a_frozen_value_that_prints_itself():
    one = made(watermark=Bounded(timedelta(seconds=5)), late=Drop())
    with pytest.raises(AttributeError):
        one.name = "other"
    assert "Bounded" in repr(one)
    assert "'in'" in repr(one)
    assert one == made(watermark=Bounded(timedelta(seconds=5)), late=Drop())


def test_what_it_reads_and_writes_may_be_one_or_several():
    one = made(reads=[IN, Source(PLAIN, start="end", record=True)], writes=[OUT])
    assert [source.topic.name for source in one.sources] == ["in", "plain"]
    assert [source.start for source in one.sources] == ["beginning", "end"]
    assert one.sinks == (OUT,)


def test_importing_and_printing_an_app_starts_no_spark_and_imports_no_gateway():
    script = (
        "import sys\n"
        "from tests.test_app import made\n"
        "from headwater import App\n"
        "print(App('bank', made()))\n"
        "from pyspark import SparkContext\n"
        "assert SparkContext._active_spark_context is None\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "bank" in done.stdout


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "a b"}, "'a b' cannot be the name of a pipeline"),
        ({"name": ""}, "'' cannot be the name of a pipeline"),
        ({"function": None}, "needs a function or SQL, one of them"),
        ({"sql": "SELECT 1"}, "needs a function or SQL, one of them"),
        ({"function": 5}, "cannot be called: 5"),
        ({"reads": []}, "reads nothing"),
        ({"reads": ["in"]}, "cannot read 'in'"),
        ({"reads": [IN, Source(IN)]}, "reads 'in' twice"),
        ({"writes": []}, "writes nothing"),
        ({"writes": PLAIN}, "cannot write to"),
        ({"writes": [OUT, OUT]}, "writes 'out' twice"),
        ({"watermark": Bounded(timedelta(0))}, "has no late="),
        ({"late": Drop()}, "has no watermark="),
        ({"reads": [PLAIN], "watermark": Bounded(timedelta(0)), "late": Drop()}, "'plain' no event time"),
        ({"batch": 0}, "must hold at least one record"),
        ({"every": timedelta(0)}, "must be a positive duration"),
        ({"dead_limit": -1}, "cannot be negative"),
        ({"latency": "fast"}, "latency of pipeline 'p' cannot be 'fast'"),
        ({"output": "all"}, "output of pipeline 'p' cannot be 'all'"),
        ({"latency": "real-time"}, "cannot be exactly-once in real time"),
        ({"watermark": SHORT, "late": Divert("in")}, "reads or writes the topic of its late rows, 'in'"),
        ({"watermark": SHORT, "late": Divert("out")}, "reads or writes the topic of its late rows, 'out'"),
        ({**FAST, "watermark": SHORT, "late": Divert("late")}, "cannot divert late rows in real time"),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused_when_it_is_made(changed, said):
    with pytest.raises(BadPipeline) as caught:
        made(**changed)
    assert said in str(caught.value)


def test_a_source_that_cannot_be_is_refused_when_it_is_made():
    with pytest.raises(BadPipeline, match="cannot be 'middle'"):
        Source(IN, start="middle")
    with pytest.raises(BadPipeline, match="has a column _record of its own"):
        Source(Topic("t", schema="_record string"), record=True)


@pytest.mark.parametrize(
    "make",
    [
        Bounded,
        lambda back: Bounded(timedelta(0), future=back),
        lambda back: Monotonic(future=back),
        Grace,
        lambda back: Divert("late", grace=back),
    ],
)
def test_time_does_not_run_backwards(make):
    with pytest.raises(BadPipeline, match="cannot be negative"):
        make(timedelta(seconds=-1))


@pytest.mark.parametrize("name", ["", "a b", "..", "x" * 250])
def test_late_rows_need_a_topic_that_can_be(name):
    with pytest.raises(SpecError):
        Divert(name)


@pytest.mark.parametrize(
    ("watermark", "late", "waits"),
    [(SHORT, Drop(), 5), (SHORT, Grace(timedelta(seconds=2)), 7), (Monotonic(), Drop(), 0)],
)
def test_a_watermark_waits_for_the_delay_and_the_grace(watermark, late, waits):
    assert made(watermark=watermark, late=late).waits == timedelta(seconds=waits)


class TestApp:
    def test_it_names_its_pipelines_among_all_apps(self):
        one = made()
        assert App("bank", one).label(one) == "bank.p"

    def test_some_of_its_pipelines_may_be_chosen(self):
        app = App("bank", made(), made(name="q"))
        assert [one.name for one in app.only(["q"]).pipelines] == ["q"]
        assert app.only([]) is app

    def test_an_unknown_choice_is_told_with_the_known_ones(self):
        with pytest.raises(BadPipeline) as caught:
            App("bank", made()).only(["q"])
        assert "app 'bank' has no pipeline 'q'" in str(caught.value)
        assert "its pipelines: p" in str(caught.value)

    def test_without_pipelines_or_with_two_of_one_name_it_is_refused(self):
        with pytest.raises(BadPipeline, match="has no pipeline"):
            App("bank")
        with pytest.raises(BadPipeline, match="has 'p' twice"):
            App("bank", made(), made())

    def test_a_name_that_cannot_name_a_group_is_refused(self):
        with pytest.raises(BadPipeline, match="cannot be the name of an app"):
            App("my bank", made())

    def test_a_topic_in_sql_has_a_name_that_needs_no_quotes(self):
        assert Source(Topic("card-activity.v1", schema="a int")).table == "card_activity_v1"


def test_two_systems_may_have_a_copy_of_one_name() -> None:
    copies = [RedisSink("copy", key="card"), SearchSink("copy", key="card")]
    assert [one.name for one in made(writes=copies).sinks] == ["copy", "copy"]

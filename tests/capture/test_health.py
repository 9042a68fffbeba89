"""What a connector's figures say that somebody should look at, and how a running app tells it."""

import json
from datetime import timedelta
from types import SimpleNamespace

import pytest
from rich.console import Console

from headwater.capture.health import Health
from headwater.cli.capture_figures import as_row, news_of, troubles_of
from headwater.cli.run import _picture
from headwater.run.captures import CaptureFigures
from headwater.run.progress import Figures

WELL = {
    "connector": "headwater-shop",
    "state": "running",
    "tables": ("public.orders",),
    "position": "0/1A2B",
    "slot": "active",
    "lag_bytes": 56,
    "lag_s": 0.1,
    "retained_bytes": 1000,
}


def health(**changed: object) -> Health:
    return Health(**{**WELL, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [{}, {"state": "paused", "slot": "idle", "lag_s": 3600.0}, {"state": "snapshot", "slot": "idle"}],
)
def test_a_connector_that_is_well_paused_or_reads_the_first_rows_is_no_alert(changed):
    assert list(health(**changed).alerts()) == []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"state": "failed"}, "it is failed"),
        ({"state": "not there", "slot": "none"}, "it is not there"),
        ({"slot": "unknown"}, "it cannot read its database: `headwater capture check` tells why"),
        ({"slot": "idle", "lag_s": 60.0}, "it cannot read its database: `headwater capture check` tells why"),
        ({"slot": "unreserved"}, "its slot is unreserved: the database has thrown away, or is about to"),
        ({"unpublished": ("public.orders",)}, "its publication lacks public.orders"),
        ({"retained_bytes": 900, "limit_bytes": 1000}, "the database keeps 900 bytes for it, and throws"),
        ({"retained_bytes": 6000}, "the database keeps 6,000 bytes for it, above 5,000"),
        ({"lag_s": 45.0}, "it is 45 s behind, above 30"),
    ],
)
def test_what_is_amiss_is_an_alert_that_says_what(changed, why):
    found = next(health(**changed).alerts(5000, timedelta(seconds=30)))
    assert found.startswith(why)


def test_a_running_app_tells_a_connector_in_a_row_a_line_and_json():
    one = CaptureFigures(health=health(), restarts=2)
    assert as_row(one)["restarts"] == 2
    assert list(troubles_of(one)) == []
    line = news_of(one, {}, as_json=False)
    assert "Z headwater-shop running position=0/1A2B lag_bytes=56 lag_s=0.1" in line
    assert line.endswith("slot=active restarts=2")
    told = json.loads(news_of(one, {}, as_json=True))
    assert (told["connector"], told["restarts"], told["alerts"]) == ("headwater-shop", 2, [])


def test_it_is_told_again_only_when_something_has_changed():
    told: dict[str, tuple[object, ...]] = {}
    assert news_of(CaptureFigures(health=health()), told, as_json=False)
    assert not news_of(CaptureFigures(health=health(lag_s=0.2)), told, as_json=False)
    assert news_of(CaptureFigures(health=health(position="0/1A2C")), told, as_json=False)


def test_what_is_wrong_is_told_in_one_line_each():
    failed = CaptureFigures(health=health(state="failed"), error="it gave up [connector-failed]\n  why")
    assert list(troubles_of(failed)) == ["headwater-shop: it gave up [connector-failed]"]
    assert 'error="it gave up [connector-failed]\\n  why"' in news_of(failed, {}, as_json=False)
    alerted = CaptureFigures(health=health(slot="unreserved"))
    assert next(troubles_of(alerted)).startswith("headwater-shop: its slot is unreserved")
    assert json.loads(news_of(alerted, {}, as_json=True))["alerts"] != []


def test_the_live_table_of_a_running_app_has_its_connectors_above_its_pipelines():
    captures = [SimpleNamespace(figures=CaptureFigures(health=health(slot="lost"), restarts=3))]
    supervisor = SimpleNamespace(captures=captures, figures=[Figures(pipeline="copy", error="it waits")])
    console = Console(width=200, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(_picture(supervisor))
    lines = captured.get().splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["connector", "headwater-shop", "pipeline", "copy"]
    assert lines[1].rstrip().endswith("3")
    assert lines[-2].startswith("headwater-shop: its slot is lost")
    assert lines[-1].rstrip() == "copy: it waits"

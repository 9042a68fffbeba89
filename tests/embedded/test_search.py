"""A real OpenSearch: what a copy of a table needs of it, and what it keeps after kill -9."""

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from headwater import Settings, embedded
from headwater.embedded.nobody import NOBODY
from headwater.embedded.ports import a_free_port
from headwater.embedded.search import _need_java
from headwater.errors import ServerUnavailable

pytestmark = pytest.mark.system


def ask(url: str, path: str, method: str = "GET", said: object = None) -> Any:
    request = urllib.request.Request(
        f"{url}/{path}",
        data=json.dumps(said).encode() if said is not None else None,
        method=method,
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Settings]:
    settings = Settings(home=tmp_path, search_port=a_free_port())
    yield settings
    embedded.down(settings)


def test_an_older_and_an_equal_version_change_nothing(search: str) -> None:
    ask(search, "versions/_doc/a?version=5&version_type=external", "PUT", {"word": "new"})
    for version in (4, 5):
        with pytest.raises(urllib.error.HTTPError, match="409"):
            ask(search, f"versions/_doc/a?version={version}&version_type=external", "PUT", {"word": "old"})
    assert ask(search, "versions/_doc/a")["_source"] == {"word": "new"}


def test_words_are_analysed_scripts_run_and_an_index_is_copied(search: str) -> None:
    analysed = {
        "settings": {"analysis": {"analyzer": {"ours": {"tokenizer": "standard", "filter": ["porter_stem"]}}}}
    }
    mapping = {"mappings": {"properties": {"text": {"type": "text", "analyzer": "ours"}}}}
    ask(search, "words", "PUT", analysed | mapping)
    ask(search, "words/_doc/1?refresh=true", "PUT", {"text": "running rivers", "count": 1})
    assert ask(search, "words/_count?q=text:river")["count"] == 1
    ask(search, "words/_update/1?refresh=true", "POST", {"script": "ctx._source.count += 41"})
    ask(search, "_reindex?refresh=true", "POST", {"source": {"index": "words"}, "dest": {"index": "copies"}})
    assert ask(search, "copies/_doc/1")["_source"]["count"] == 42


def test_what_it_acknowledged_survives_kill_9_and_root_starts_it_as_nobody(home: Settings) -> None:
    def up() -> psutil.Process:
        return psutil.Process(embedded.up(home, [embedded.SERVERS["search"]], lambda *_: None)[0].pid)

    first = up()
    assert first.uids().effective == (os.geteuid() or NOBODY)
    heard = {one.laddr.ip.removeprefix("::ffff:") for one in first.net_connections("inet")}
    assert heard == {"127.0.0.1"}
    ask(embedded.search_url(home) or "", "kept/_doc/1", "PUT", {"word": "kept"})
    os.kill(first.pid, signal.SIGKILL)
    up()
    assert ask(embedded.search_url(home) or "", "kept/_doc/1")["_source"] == {"word": "kept"}
    assert embedded.down(home) == ["search"]


def test_a_java_without_a_security_manager_is_refused() -> None:
    _need_java(21)
    with pytest.raises(ServerUnavailable, match="search cannot run on Java 25") as raised:
        _need_java(25)
    assert "HEADWATER_SEARCH" in raised.value.hint


def test_an_existing_one_is_named_by_its_url(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, search="https://me:s3cret@there:9200")
    assert embedded.search_url(settings) == "https://me:s3cret@there:9200"
    assert embedded.anywhere(settings).search == settings.search
    assert "s3cret" not in repr(settings)
    assert embedded.search_url(Settings(home=tmp_path)) is None

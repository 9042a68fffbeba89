"""Bulks against a server that misbehaves: nothing is lost or asked for ever, reasons are told."""

import json
from datetime import timedelta

import pytest

from headwater.errors import SettingsError, SinkRefused, SinkUnreachable
from headwater.sink.search_bulk import MOST_REFUSED, Action, Bulk
from headwater.sink.search_server import SearchServer, pauses
from tests.sink.searching import items, server_that_says

SOON = timedelta(milliseconds=300)
FULL = {"type": "opensearch_rejected_execution_exception", "reason": "queue is full"}
GOOD = (200, {"ok": True})


@pytest.fixture
def naps():
    return []


@pytest.fixture
def to(naps):
    return lambda said, within=timedelta(seconds=5): SearchServer(said.url, within=within, sleep=naps.append)


def actions(count):
    return [Action(f"k{n}", n, b'{"n":%d}' % n) for n in range(count)]


def ids_of(sent):
    return [json.loads(line)["index"]["_id"] for line in sent.splitlines()[::2]]


def test_a_busy_server_is_asked_again_and_so_is_one_that_hangs_up(to, naps):
    with server_that_says((429, {}), (503, b"starting"), None, GOOD) as said, to(said) as server:
        assert server.ask("GET", "a").body == {"ok": True}
    assert len(said.asked) == 4
    assert naps[0] <= 0.1 < naps[2] <= 0.4


def test_a_server_that_never_answers_is_given_up_with_its_last_word(to):
    with server_that_says(*[(503, {"error": "no master"})] * 9) as said, to(said, SOON) as server:
        with pytest.raises(SinkUnreachable, match=r"at 127.0.0.1:\d+ does not answer") as raised:
            server.ask("GET", "a")
    assert raised.value.detail == "503: no master"
    assert "HEADWATER_SEARCH" in raised.value.hint


def test_pauses_double_to_a_limit_and_differ():
    found = pauses(1, 4)
    for limit in (1, 2, 4, 4):
        assert limit / 2 <= next(found) <= limit


def test_a_user_and_a_password_are_sent_and_never_shown():
    with server_that_says(GOOD, (401, {"error": "who are you"})) as said:
        url = said.url.replace("//", "//me:s%3Acret@")
        with SearchServer(f"{url}/behind/") as server:
            server.ask("GET", "a", {"q": 1})
            with pytest.raises(SinkRefused, match="does not let us in") as raised:
                server.ask("GET", "a")
    assert said.headers[0]["Authorization"] == "Basic bWU6czpjcmV0"
    assert said.asked[0] == ("GET", "/behind/a", '{"q":1}')
    assert "cret" not in str(raised.value) + repr(server)


@pytest.mark.parametrize("url", ["localhost:9200", "ftp://there", "http://", "http://a:s3cret@b:port"])
def test_a_url_that_is_none_is_refused_without_being_repeated(url):
    with pytest.raises(SettingsError) as raised:
        SearchServer(url)
    assert "s3cret" not in str(raised.value)


def test_what_is_there_already_is_no_error_and_a_missing_document_may_be_deleted(to):
    with server_that_says((200, items(201, 409, 200))) as said, to(said) as server:
        bulk = Bulk(server, "orders-1~writers", of="orders")
        for one in actions(3):
            bulk.add(one)
        bulk.flush()
    assert bulk.refused == []
    method, path, sent = said.asked[0]
    assert (method, path) == ("POST", "/orders-1~writers/_bulk?require_alias=true")
    about = {"_id": "k2", "version": 2, "version_type": "external"}
    assert json.loads(sent.splitlines()[4]) == {"index": about}
    assert json.loads(Action("k2", 2, None).lines) == {"delete": about}


def test_only_what_the_server_had_no_room_for_is_sent_again(to):
    answers = (200, items(201, 429, 400)), (200, items(503)), (200, items(201))
    with server_that_says(*answers) as said, to(said) as server:
        bulk = Bulk(server, "orders-1~writers", of="orders")
        for one in actions(3):
            bulk.add(one)
        bulk.flush()
    assert [ids_of(sent) for _, _, sent in said.asked] == [["k0", "k1", "k2"], ["k1"], ["k1"]]
    assert [(one.key, one.position, one.value, one.reason) for one in bulk.refused] == [
        ("k2", 2, b'{"n":2}', "mapper_parsing_exception: no")
    ]


def test_a_server_without_room_is_given_up_after_a_while(to):
    with server_that_says(*[(200, items(429, error=FULL))] * 9) as said, to(said, SOON) as server:
        bulk = Bulk(server, "orders-1~writers", of="orders")
        bulk.add(actions(1)[0])
        with pytest.raises(SinkUnreachable, match="no room for 1 documents") as raised:
            bulk.flush()
    assert raised.value.detail == "opensearch_rejected_execution_exception: queue is full"


def test_a_full_disk_is_waited_for(to):
    block = {"type": "cluster_block_exception", "reason": "index read-only / allow delete"}
    with server_that_says((200, items(403, error=block)), (200, items(201))) as said, to(said) as server:
        bulk = Bulk(server, "orders-1~writers", of="orders")
        bulk.add(actions(1)[0])
        bulk.flush()
    assert bulk.refused == []


def test_bulks_are_bounded_by_bytes_and_one_that_is_too_large_is_halved(to):
    with server_that_says((200, items(201, 201)), (200, items(201))) as said, to(said) as server:
        bulk = Bulk(server, "orders-1~writers", of="orders", size=2 * len(actions(1)[0].lines))
        for one in actions(3):
            bulk.add(one)
        bulk.flush()
    assert [len(ids_of(sent)) for _, _, sent in said.asked] == [2, 1]
    too_large = (413, b"")
    with server_that_says(too_large, too_large, (200, items(201)), (200, items(201))) as said:
        with to(said) as server:
            bulk = Bulk(server, "orders-1~writers", of="orders")
            for one in actions(3):
                bulk.add(one)
            bulk.flush()
    assert [one.key for one in bulk.refused] == ["k0"]
    assert "bytes are more than the server takes" in bulk.refused[0].reason


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (404, SinkRefused, "'orders' is no alias of an index any more"),
        (200, SinkUnreachable, "the copy 'orders' was switched"),
    ],
)
def test_an_index_that_is_gone_ends_the_batch_and_none_is_made_by_accident(to, status, error, said):
    gone = {"type": "index_not_found_exception", "reason": "no such index [orders-1~writers]"}
    with server_that_says((200, items(404, error=gone)), (status, {})) as told, to(told) as server:
        bulk = Bulk(server, "orders-1~writers", of="orders")
        bulk.add(actions(1)[0])
        with pytest.raises(error, match=said):
            bulk.flush()


def test_a_flood_of_refusals_is_no_matter_for_letters(to):
    count = MOST_REFUSED + 1
    with server_that_says((200, items(*[400] * count))) as said, to(said) as server:
        bulk = Bulk(server, "orders-1~writers", of="orders")
        for one in actions(count):
            bulk.add(one)
        with pytest.raises(SinkRefused, match="refuses document after document") as raised:
            bulk.flush()
    assert "mapper_parsing_exception: no" in raised.value.detail

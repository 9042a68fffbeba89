"""The app that bench/chaos_capture.py kills: a shop's tables captured, kept three times, and its outbox."""

from datetime import timedelta

from headwater import (
    App,
    Database,
    Outbox,
    Pipeline,
    PostgresSink,
    RedisSink,
    SearchSink,
    Table,
    Topic,
    upserts,
)
from headwater.sink.contract import KeyedSink

SHOP = Database("shop")
ORDERS = Table(
    SHOP,
    "public.orders",
    schema="id long NOT NULL, customer string, amount decimal(10,2), note string, version long NOT NULL",
    key="id",
    partitions=2,
)
LINES = Table(
    SHOP,
    "public.lines",
    schema="order_id long NOT NULL, line int NOT NULL, product string, quantity int, version long NOT NULL",
    key=["order_id", "line"],
    partitions=2,
)
TABLES = (ORDERS, LINES)
DONE = Topic("chaos-done", schema="number long NOT NULL", key="number", partitions=2)
OUTBOX = Outbox(SHOP, topics=[DONE])
EVERY = timedelta(milliseconds=500)

ORDER_COPIES: tuple[KeyedSink, ...] = (
    PostgresSink("public.orders_copy", database=SHOP, key="id"),
    RedisSink("orders", key="id"),
    SearchSink("orders", key="id"),
)
LINE_COPIES: tuple[KeyedSink, ...] = (
    PostgresSink("public.lines_copy", database=SHOP, key=LINES.keys),
    RedisSink("lines", key=LINES.keys, form="json"),
    SearchSink("lines", key=LINES.keys),
)
COPIES = {ORDERS: ORDER_COPIES, LINES: LINE_COPIES}

app = App(
    "chaos",
    *(
        Pipeline(f"orders-{number}", upserts, reads=[ORDERS], writes=one, every=EVERY)
        for number, one in enumerate(ORDER_COPIES)
    ),
    Pipeline("lines", upserts, reads=[LINES], writes=LINE_COPIES, every=EVERY),
    captures=[*TABLES, OUTBOX],
)

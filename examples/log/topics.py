"""The topic of the demo: payments, numbered so that anybody can count what was lost or doubled."""

from headwater import Topic

PAYMENTS = Topic(
    "payments",
    schema="card string NOT NULL, amount double, number long NOT NULL, paid_at timestamp",
    key="card",
    event_time="paid_at",
    partitions=4,
)

"""How consumers wait and fetch: the few figures that readers and members share."""

from datetime import timedelta
from typing import Any

SMALL_WAIT = 0.05
"""Seconds to wait for a batch before looking around."""

PATIENCE = timedelta(seconds=30)
"""How long a bounded read goes without progress before the broker counts as away."""

TUNED: dict[str, Any] = {
    "fetch_queue_backoff_ms": 5,  # the default of a second starves a fast loop
    "queued_min_messages": 200_000,
    "fetch_wait_max_ms": 50,
}

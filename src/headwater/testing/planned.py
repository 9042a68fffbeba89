"""Planned: what is known of a rehearsal's batches, which in production stands in Kafka's offsets.

The watermarks are in the checkpoint, or in the manifests beside it, as they are in production. Where the
topics end is known here.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from headwater.run import history
from headwater.run.decided import decided
from headwater.run.history import Planned
from headwater.run.shelf import Shelf
from headwater.testing.memory import MemoryTopic


class PlannedInMemory:
    """The batches of a query over topics in memory."""

    def __init__(self, checkpoint: Path, topics: Mapping[str, MemoryTopic]) -> None:
        self.checkpoint, self._topics = checkpoint, topics

    def batch(self, number: int) -> Planned | None:
        """A batch; None when there is none."""
        file = self.checkpoint / "offsets" / str(number)
        if not file.exists():
            return None
        planned = history.read("\n".join(file.read_text().splitlines()[:2]))
        return replace(planned, ends={name: dict(one.ends) for name, one in self._topics.items()})


class DecidedInMemory:
    """The same, with the watermarks that manifests decided."""

    def __init__(self, planned: PlannedInMemory, shelf: Shelf) -> None:
        self._planned, self._shelf = planned, shelf

    def batch(self, number: int) -> Planned | None:
        """A batch; None when there is none."""
        return decided(self._planned.batch(number), self._shelf.manifest(number))

    def size(self, number: int) -> int:  # noqa: ARG002 - it is the same for each
        """So few rows that compiling does not pay."""
        return 0

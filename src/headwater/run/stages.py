"""Stages: the two calls of a pipeline's function in a batch on columnar state.

In the first one the rows of the batch reach its steps, and are written. In the second, each step answers from
what the manifest names. What a step has to remember of its answer is written before anybody sees it.
"""

from pyspark.sql import DataFrame

from headwater.process.stage import SPOKE_IN, Step
from headwater.run.manifest import Folder, Manifest, horizon
from headwater.run.shelf import Shelf
from headwater.run.steps import Met, Names, Steps, said_nothing
from headwater.run.writing import spoken


class Gathering:
    """The stage on which the rows of a batch reach the steps; `nothing` is what each has said so far."""

    def __init__(self, nothing: dict[str, DataFrame]) -> None:
        self.inputs: dict[str, tuple[Step, DataFrame]] = {}
        self._nothing, self._names = nothing, Names()

    def play(self, step: Step, rows: DataFrame) -> DataFrame:
        """Note the rows, and say nothing."""
        name = self._names.name(step)
        self.inputs[name] = step, rows
        if name not in self._nothing:
            self._nothing[name] = said_nothing(step, rows)
        return self._nothing[name]


class Answering:
    """The stage on which each step answers, and what those that remember have said."""

    def __init__(self, steps: Steps, manifest: Manifest, shelf: Shelf) -> None:
        self.said: dict[str, Folder | None] = {}
        self._steps, self._manifest, self._shelf = steps, manifest, shelf
        self._names = Names()

    def play(self, step: Step, rows: DataFrame) -> DataFrame:  # noqa: ARG002 - they are in its folder
        """Answer from the folders."""
        met, moment = self._steps.of(self._names.name(step)), self._manifest.moment
        state, batch = self._rows(met, step)
        if not step.remembers(moment.grace):
            return step.answer(state, batch, moment)
        kept = self._manifest.steps[met.name]
        answer = step.answer(state, batch, moment, self._shelf.read(kept.said, met.said_schema))
        folder = spoken(answer, self._shelf.name(met.name, moment.number), self._shelf)
        self.said[met.name] = folder
        return self._shelf.read((folder,) if folder else (), met.said_schema).drop(SPOKE_IN)

    def _rows(self, met: Met, step: Step) -> tuple[DataFrame | None, DataFrame]:
        """The state, as far as it can matter, and the batch."""
        kept, schema = self._manifest.steps[met.name], met.state_schema
        batch = self._shelf.read((kept.added,) if kept.added else (), schema)
        if not kept.state:
            return None, batch
        state = self._shelf.read(kept.state, schema)
        least = horizon(self._manifest.before, step.reach, self._manifest.grace)
        return (state if least is None else state.where(step.time() > least)), batch

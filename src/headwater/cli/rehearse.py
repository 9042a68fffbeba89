"""rehearse: transcripts played on virtual time, without a broker."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.output import AsJson

if TYPE_CHECKING:
    from headwater.testing import Mismatch, Transcript

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE.YAML...", help="Transcripts, each of one pipeline.", show_default=False),
]


def rehearse(files: Files, as_json: AsJson = False) -> None:
    """Play transcripts of pipelines on virtual time, without Kafka.

    A transcript names a pipeline of an app and says step by step what is fed, how time goes, and what comes
    out, late, dropped or dead. The pipeline runs as a real query of Spark; where it does something
    else than its transcript says, the difference is shown and the exit code is 1.

        headwater rehearse tests/transcripts/*.yaml
    """
    from headwater.testing import Transcript, quick_session, recite  # noqa: PLC0415 - Spark is slow to import

    transcripts = [
        Transcript.read(one) for one in files
    ]  # all, before Spark starts: mistakes are told at once
    has_failed = False
    with quick_session() as spark:
        for transcript in transcripts:
            found = recite(transcript, spark)
            has_failed |= bool(found)
            typer.echo(_as_json(transcript, found) if as_json else _text(transcript, found))
    if has_failed:
        raise typer.Exit(1)


def _as_json(transcript: "Transcript", found: "list[Mismatch]") -> str:
    mismatches = [{"line": one.line, "what": one.what, "difference": one.difference} for one in found]
    said = {"file": str(transcript.file), "title": transcript.title, "holds": not found}
    return json.dumps(said | {"mismatches": mismatches})


def _text(transcript: "Transcript", found: "list[Mismatch]") -> str:
    head = f"{'FAILED' if found else 'ok':8}{transcript.file}: {transcript.title}"
    lines = [line for one in found for line in str(one).splitlines()]
    return "\n".join([head, *(f"        {one}" for one in lines)])

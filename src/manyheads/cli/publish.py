"""The command that makes a folder for others of a run's model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from manyheads.cli.options import AsJson, Imports, Quiet, RunArgument


def publish(
    run: RunArgument,
    to: Annotated[Path | None, typer.Option("--to", help="Folder to write; by default RUN/published.")] = None,
    hub: Annotated[
        str | None, typer.Option("--hub", help="OWNER/NAME: upload it to the Hugging Face hub too, privately.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="With --hub: a new repository is public.")] = False,
    exported: Annotated[
        list[str] | None, typer.Option("--with", help="An exported folder that goes along: exported-int8.")
    ] = None,
    licence: Annotated[
        str | None, typer.Option("--license", help="Of the model: apache-2.0, cc-by-4.0 … Never guessed.")
    ] = None,
    base_licence: Annotated[
        str | None, typer.Option("--base-license", help="Of the encoder that it started from. Never guessed.")
    ] = None,
    base_model: Annotated[
        str | None, typer.Option("--base-model", help="That encoder's name on the hub, where the run does not say it.")
    ] = None,
    language: Annotated[list[str] | None, typer.Option("--language", help="Of the texts: en; may be repeated.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what was published there before.")] = False,
    imports: Imports = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a run's model and a card of it as a folder for others, offline unless --hub asks for an upload.

    For example: manyheads publish runs/reviews --license apache-2.0 --base-license apache-2.0 --language en
    """
    from manyheads.console import Reporter, print_json
    from manyheads.errors import UserError
    from manyheads.publishing.facts import CardSettings
    from manyheads.publishing.folder import publish as publish_run

    if public and hub is None:
        raise UserError("publish: --public is of --hub, which was not given.", code="conflicting-options")
    settings = CardSettings(licence, base_licence, base_model, tuple(language or ()), hub)
    published = publish_run(run, to, settings, exported or (), public, overwrite, imports or (), Reporter(quiet))
    if as_json:
        print_json({"folder": str(published.folder), "notes": published.notes, "address": published.address})
        return
    for note in published.notes:
        print(f"note: {note}", file=sys.stderr)
    size = sum(file.stat().st_size for file in published.folder.rglob("*") if file.is_file()) / 1e6
    print(f"{published.folder}: {size:.0f} MB; README.md is its card")
    if published.address is not None:
        print(f"{published.address} ({'public' if public else 'private'} if it is new)")

"""`manyheads publish`: a run's model and its card as a folder for others, on disk or on the hub.

runs/reviews/published/
  README.md                the model card
  config.json …            the model folder: safetensors, JSON, text, checksums
  exported-int8/           as exported, where asked for
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from manyheads.config.plugins import import_parts
from manyheads.console import Reporter
from manyheads.errors import UserError, nearest
from manyheads.inference.onnx_folder import DESCRIPTION_FILE
from manyheads.model.folder_checks import MODEL_FILE, check_files
from manyheads.publishing.card import model_card
from manyheads.publishing.facts import CardFacts, CardSettings
from manyheads.publishing.hub import check_hub_name, upload
from manyheads.publishing.licences import check_languages, licence_notes
from manyheads.publishing.portable import folders_of, refuse_folders, without_paths
from manyheads.reports.facts import RunFacts
from manyheads.storage.files import CHECKSUMS, check_folder, restore_folder, write_folder

CARD = "README.md"
EXPORTED = "exported-"  # begins the names of exported folders in a run
PUBLISHED_SUFFIXES = (".safetensors", ".json", ".txt")  # of the model folder: what a reader is sure not to run
# JSON files that name paths at times; the others are vocabularies, whose words may look like paths
WITH_PATHS = (MODEL_FILE, "config.json", "tokenizer_config.json", DESCRIPTION_FILE)
TEXT_SUFFIXES = (".json", ".md", ".onnx")  # that are searched for folders of this machine


@dataclass(frozen=True)
class Published:
    folder: Path
    notes: list[str] = field(default_factory=list)
    address: str | None = None  # of the commit on the hub


def publish(
    run: str | Path,
    to: str | Path | None = None,
    settings: CardSettings | None = None,
    exported: Sequence[str] = (),
    public: bool = False,
    overwrite: bool = False,
    imports: Sequence[str | Path] = (),
    reporter: Reporter | None = None,
) -> Published:
    """Write the folder; where `settings.hub_name` is set, upload it too.

    `exported`: exported folders of the run that go along, by name.
    """
    settings, folder = settings or CardSettings(), Path(run)
    check_languages(settings.languages)
    if settings.hub_name is not None:
        check_hub_name(settings.hub_name)
    for file in imports:
        import_parts(Path(file).expanduser().resolve(), "imports")
    target = Path(to) if to is not None else folder / "published"
    facts = CardFacts(RunFacts(folder), settings, reporter or Reporter(quiet=True), tuple(exported))
    model = _check_model(facts)
    check_free(target, overwrite)
    _write(facts, model, _check_exports(facts, exported), target)
    published = Published(target, licence_notes(settings.licence, settings.base_licence))
    if settings.hub_name is None:
        return published
    return replace(published, address=upload(target, settings.hub_name, public))


def _write(facts: CardFacts, model: Path, exports: dict[str, Path], target: Path) -> None:
    """Nothing, where any of it names a folder of this machine."""
    private = folders_of(facts.recipe, facts.run.folder)
    texts = {CARD: model_card(facts)}
    for file in sorted(model.iterdir()):
        if file.name in WITH_PATHS:
            texts[file.name] = _portable_json(file)
    refuse_folders(((name, text.encode()) for name, text in texts.items()), private)
    for export in exports.values():
        refuse_folders(_searched(export), private)

    def fill(aside: Path) -> None:
        for file in model.iterdir():
            if file.suffix in PUBLISHED_SUFFIXES and file.name not in (CHECKSUMS, *texts):
                shutil.copyfile(file, aside / file.name)
        for name, text in texts.items():
            (aside / name).write_text(text, encoding="utf-8")
        for name, export in exports.items():
            _copy_export(export, aside / name)

    write_folder(target, fill, unlisted=(CARD, *exports))


def _check_model(facts: CardFacts) -> Path:
    """best/ of a finished run, whole and sound."""
    folder = facts.run.folder
    source = folder / "best"
    restore_folder(source)
    if not facts.run.finished or not source.is_dir():
        reason = "it has no finished model of tasks (best/ and metrics.json)"
        raise UserError(f"{folder}: {reason}. `manyheads resume {folder}` finishes a run.", code="unfinished-run")
    check_files(source)
    _ = facts.run.run.predictor  # opens, or says why it does not
    return source


def check_free(target: Path, overwrite: bool) -> None:
    """Only an earlier publication is ever replaced, and only where that was asked for."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise UserError(f"{target}: exists already; --overwrite replaces it, --to names another.", code="folder-exists")
    if not all((target / name).is_file() for name in (CARD, MODEL_FILE, CHECKSUMS)):
        raise UserError(f"{target}: not replaced, because this command did not write it.", code="not-published")


def _check_exports(facts: CardFacts, names: Sequence[str]) -> dict[str, Path]:
    """Those of this very model."""
    exports: dict[str, Path] = {}
    for name in names:
        export = facts.run.folder / name
        if Path(name).name != name or not name.startswith(EXPORTED) or not (export / CHECKSUMS).is_file():
            known = [file.parent.name for file in facts.run.folder.glob(f"{EXPORTED}*/{CHECKSUMS}")]
            raise UserError(
                f"publish: --with: no exported folder '{name}'.{nearest(name, known)}", code="no-such-export"
            )
        check_folder(export, code="damaged-model")
        if (export / DESCRIPTION_FILE).is_file() and name not in facts.exported:
            reason = f"{name} was exported from another model of this run"
            raise UserError(f"publish: --with: {reason}; export it again.", code="other-model")
        exports[name] = export
    return exports


def _searched(export: Path) -> Iterator[tuple[str, bytes]]:
    """The files of an exported folder that may name folders, as they are published."""
    for file in sorted(export.rglob("*")):
        name = f"{export.name}/{file.name}"
        if file.name in WITH_PATHS:
            yield name, _portable_json(file).encode()
        elif file.suffix in TEXT_SUFFIXES:
            yield name, file.read_bytes()


def _copy_export(export: Path, target: Path) -> None:
    def fill(aside: Path) -> None:
        for file in sorted(export.rglob("*")):
            copy = aside / file.relative_to(export)
            if file.is_dir():
                copy.mkdir()
            elif file.name in WITH_PATHS:
                copy.write_text(_portable_json(file), encoding="utf-8")
            elif file.name != CHECKSUMS:
                shutil.copyfile(file, copy)

    write_folder(target, fill)


def _portable_json(file: Path) -> str:
    """The file without this machine's folders. Labels of tasks stay as they are, whatever they look like."""
    content = json.loads(file.read_text(encoding="utf-8"))
    tasks = content.get("tasks")
    content = without_paths(content)
    if tasks is not None:
        content["tasks"] = tasks
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

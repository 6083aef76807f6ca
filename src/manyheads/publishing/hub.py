"""A published folder is put on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from manyheads.errors import UserError
from manyheads.runs.hub import is_hub_fault

REPLACED = ["*.safetensors", "*.json", "*.onnx"]  # an earlier publication's files that this one has no more

SHOWN_LINES = 4  # of what the hub says


def check_hub_name(name: str) -> None:
    """Before anything is written."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # it is

    try:
        validate_repo_id(name)
    except HFValidationError as fault:
        raise UserError(f"publish: --hub: {str(fault).strip().splitlines()[0]}", code="bad-option") from None


def upload(folder: Path, name: str, public: bool) -> str:
    """One commit; returns its address. A new repository is private unless `public`; of one that is there already
    nothing changes but its files."""
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        api.create_repo(name, private=not public, exist_ok=True)
        commit = api.upload_folder(
            repo_id=name,
            folder_path=folder,
            commit_message="Publish with manyheads",
            delete_patterns=REPLACED,
        )
    except Exception as fault:
        if not is_hub_fault(fault) and not isinstance(fault, ValueError):  # what its check of the card's head raises
            raise
        lines = [line.strip() for line in str(fault).splitlines() if line.strip()] or [type(fault).__name__]
        reason = f"it was written to {folder}, but the hub did not take it: {' '.join(lines[:SHOWN_LINES])}"
        advice = "Log in with `hf auth login` or set HF_TOKEN, then publish again with --overwrite."
        raise UserError(f"publish: {name}: {reason}\n{advice}", code="hub-not-reached") from None
    return str(commit.commit_url)

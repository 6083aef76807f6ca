"""Licences and languages as a model card on the hub names them. Neither is ever guessed."""

from __future__ import annotations

import difflib
import re
from typing import Any

from manyheads.errors import UserError

KNOWN_IDS = """
    apache-2.0 mit openrail bigscience-openrail-m creativeml-openrail-m bigscience-bloom-rail-1.0 bigcode-openrail-m
    afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear c-uda cc cc0-1.0 cc-by-2.0 cc-by-2.5
    cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0
    cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0
    cdla-permissive-2.0 wtfpl ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0
    lgpl lgpl-2.1 lgpl-3.0 lgpl-lr isc h-research intel-research lppl-1.3c ms-pl apple-ascl apple-amlr mpl-2.0
    odc-by odbl openmdw-1.0 openrail++ osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib pddl deepfloyd-if-license
    fair-noncommercial-research-license llama2 llama3 llama3.1 llama3.2 llama3.3 llama4 gemma unknown other
"""
LICENCES = frozenset(KNOWN_IDS.split())  # the ids that the hub knows
LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*|code|multilingual")


def licence_fields(licence: str | None) -> dict[str, Any]:
    """What the card's head says: an id that the hub knows; any other one as `other`, by its name."""
    if licence is None:
        return {}
    if licence.lower() in LICENCES:
        return {"license": licence.lower()}
    return {"license": "other", "license_name": licence}


def licence_notes(licence: str | None, base_licence: str | None) -> list[str]:
    """What whoever publishes should know."""
    notes: list[str] = []
    if licence is None:
        notes.append("no licence was given (--license); the card says so")
    elif licence.lower() not in LICENCES:
        close = difflib.get_close_matches(licence.lower(), LICENCES, n=1, cutoff=0.6)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        notes.append(f"the hub knows no licence '{licence}': the card has it as `other`, by that name.{hint}")
    if base_licence is None:
        notes.append("the encoder's licence was not given (--base-license); the card says so")
    return notes


def check_languages(languages: tuple[str, ...]) -> None:
    for language in languages:
        if LANGUAGE.fullmatch(language) is None:
            reason = f"expected a code such as en or de, found '{language}'"
            raise UserError(f"publish: --language: {reason}.", code="bad-option")

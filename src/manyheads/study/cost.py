"""What a study would cost, said before it is run."""

from __future__ import annotations

from manyheads.errors import UserError
from manyheads.study.settings import Study
from manyheads.study.transfer import baseline_rows
from manyheads.study.variants import base_recipe, rows_of


def describe_cost(study: Study) -> str:
    """'12 rows, 22 runs × 2 seeds', at the scale that is run by default."""
    at = study.at(None)
    try:
        base = base_recipe(at, {})
        rows = rows_of(at, base)
        shared = next((row for row in rows if row.name == at.to), rows[0])
        runs = sum(len(row.members) for row in [*rows, *baseline_rows(at, base, shared)])
    except UserError:  # its base is not here, or an encoder that must be fetched
        return f"{len(at.variants)} variants × {len(at.seed_list)} seeds"
    return f"{len(rows)} row{'s' if len(rows) > 1 else ''}, {runs} runs × {len(at.seed_list)} seeds"

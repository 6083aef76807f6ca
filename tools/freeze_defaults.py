"""Write new keys into the frozen defaults of an earlier version, at today's default: `make defaults`.

Run it when a recipe key or an option of a part is added whose default means "as before". No value that stands in the
file is changed, and no part is added that the version did not have.
"""

from __future__ import annotations

from typing import Any

import yaml

from manyheads import registry
from manyheads.config.defaults import (
    FIRST_VERSION,
    Defaults,
    code_options,
    code_settings,
    defaults_file,
    read_defaults,
)
from manyheads.tasks.part_defaults import code_rules, is_own

HEADER = """\
# What version {version} did where a recipe said nothing. Frozen, whatever the defaults of the code are: a value is only
# ever written in another way that means the same. A key or option that came later stands here at the value that means
# "as before" (`make defaults` adds it). Parts that came later do not stand here.
"""


def code_defaults() -> Defaults:
    """The defaults of the code as it is."""
    options: dict[str, dict[str, dict[str, Any]]] = {}
    for part in registry.parts():
        if is_own(part):
            options.setdefault(part.family, {})[part.name] = code_options(part.family, part.name)
    return Defaults(code_settings(), options, code_rules())


def with_new_keys(frozen: Defaults, code: Defaults) -> Defaults:
    """The frozen defaults, with the code's keys that they lack, in the code's order; without keys that are gone."""
    settings = {key: frozen.settings.get(key, value) for key, value in code.settings.items()}
    options: dict[str, dict[str, dict[str, Any]]] = {}
    for family, parts in frozen.options.items():
        options[family] = {}
        for part, old_options in parts.items():
            new_options = code.options[family].get(part, {})
            options[family][part] = {option: old_options.get(option, value) for option, value in new_options.items()}
    return Defaults(settings, options, frozen.task_parts)


def as_yaml(defaults: Defaults, version: str) -> str:
    content = {"settings": defaults.settings, "options": defaults.options, "task_parts": defaults.task_parts}
    body = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000, default_flow_style=None)
    return HEADER.format(version=version) + body


def main() -> None:
    file = defaults_file(FIRST_VERSION)
    defaults = with_new_keys(read_defaults(FIRST_VERSION), code_defaults())
    file.write_text(as_yaml(defaults, FIRST_VERSION), encoding="utf-8")


if __name__ == "__main__":
    main()

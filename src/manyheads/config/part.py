"""A part of the registry, named in a recipe: `loss: mse`, or `loss: {name: …, option: …}`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from manyheads import registry


class Choice(BaseModel):
    """A part by name, with the options that differ from its defaults."""

    model_config = ConfigDict(frozen=True)
    name: str
    options: dict[str, Any] = {}

    def build(self, family: str, *given: Any) -> Any:
        return registry.find(family, self.name).factory(*given, **self.options)


def _read_choice(family: str, default: str | None, value: Any) -> Any:
    if value is None or isinstance(value, Choice):
        return value
    if isinstance(value, str):
        value = {"name": value}
    if isinstance(value, dict) and default is not None:
        value = {"name": default, **value}  # options alone belong to the default part
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise ValueError(f"expected a name, or a mapping with 'name' and options, found {value!r}")
    options = {key: setting for key, setting in value.items() if key != "name"}
    return Choice(name=value["name"], options=registry.find(family, value["name"]).check(options))


def dump_choice(choice: Choice | None) -> Any:
    if choice is None or not choice.options:
        return choice and choice.name
    return {"name": choice.name, **choice.options}


def load_choice(dumped: Any) -> Choice:
    """What `dump_choice` wrote, read back without checks: a saved model's parts are what they are."""
    if isinstance(dumped, str):
        return Choice(name=dumped)
    return Choice(name=dumped["name"], options={key: one for key, one in dumped.items() if key != "name"})


def _gives_similarity(encoding: Choice | None) -> bool:
    return encoding is not None and registry.find("encodings", encoding.name).factory.gives != "features"


def head_misfit(encoding: Choice | None, head: Choice) -> str | None:
    """Why the head cannot read what the encoding gives, or None. No encoding is one of those that need a head."""
    reads_similarity = getattr(registry.find("heads", head.name).factory, "reads_similarity", False)
    if _gives_similarity(encoding) == reads_similarity:
        return None
    if encoding is not None and not reads_similarity:
        return f"'{encoding.name}' gives the prediction itself; use head 'none'."
    given = f"of what '{encoding.name}' gives" if encoding else "of features"
    return f"'{head.name}' makes no prediction {given}; use 'linear', or one of the cosine encodings."


def output_misfit(encoding: Choice | None, output: Choice) -> str | None:
    """Why the output does not go with the encoding, or None."""
    similarity = _gives_similarity(encoding)
    if similarity == (output.name == "similarity"):
        return None
    need = "'similarity'" if similarity else "'raw', 'clamp' or 'sigmoid'"
    named = f"encoding '{encoding.name}'" if encoding else "this encoding"
    return f"'{output.name}' does not go with {named}; use {need}."


_dump = PlainSerializer(dump_choice)
_read_sampler = BeforeValidator(partial(_read_choice, "samplers", "batch-round-robin"))
SamplerChoice = Annotated[Choice, _read_sampler, _dump]
OptionalSampler = Annotated[Choice | None, _read_sampler, _dump]
EncodingChoice = Annotated[Choice | None, BeforeValidator(partial(_read_choice, "encodings", None)), _dump]
PoolingChoice = Annotated[Choice | None, BeforeValidator(partial(_read_choice, "pooling", None)), _dump]
HeadChoice = Annotated[Choice | None, BeforeValidator(partial(_read_choice, "heads", "linear")), _dump]
OutputChoice = Annotated[Choice | None, BeforeValidator(partial(_read_choice, "outputs", None)), _dump]
MetricChoice = Annotated[Choice, BeforeValidator(partial(_read_choice, "metrics", None)), _dump]
LossChoice = Annotated[Choice | None, BeforeValidator(partial(_read_choice, "losses", None)), _dump]
ScalarizerChoice = Annotated[Choice, BeforeValidator(partial(_read_choice, "scalarizers", "sum")), _dump]
RegulariserChoice = Annotated[Choice, BeforeValidator(partial(_read_choice, "regularisers", None)), _dump]
OptionalAggregator = Annotated[Choice | None, BeforeValidator(partial(_read_choice, "aggregators", None)), _dump]

"""A part of the registry, named in a recipe: `loss: mse`, or `loss: {name: …, option: …}`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from manyheads import registry


class PartConfig(BaseModel):
    """A part by name, with the options that differ from its defaults."""

    model_config = ConfigDict(frozen=True)
    name: str
    options: dict[str, Any] = {}

    def build(self, family: str, *given: Any) -> Any:
        return registry.find(family, self.name).factory(*given, **self.options)


def _read_part(family: str, default: str | None, value: Any) -> Any:
    if value is None or isinstance(value, PartConfig):
        return value
    if isinstance(value, str):
        value = {"name": value}
    if isinstance(value, dict) and default is not None:
        value = {"name": default, **value}  # options alone belong to the default part
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise ValueError(f"expected a name, or a mapping with 'name' and options, found {value!r}")
    options = {key: setting for key, setting in value.items() if key != "name"}
    return PartConfig(name=value["name"], options=registry.find(family, value["name"]).check(options))


def dump_part(choice: PartConfig | None) -> Any:
    if choice is None or not choice.options:
        return choice and choice.name
    return {"name": choice.name, **choice.options}


def load_part(dumped: Any) -> PartConfig:
    """What `dump_choice` wrote, read back without checks: a saved model's parts are what they are."""
    if isinstance(dumped, str):
        return PartConfig(name=dumped)
    return PartConfig(name=dumped["name"], options={key: one for key, one in dumped.items() if key != "name"})


def _gives_similarity(encoding: PartConfig | None) -> bool:
    return encoding is not None and registry.find("encodings", encoding.name).factory.gives != "features"


def why_head_incompatible(encoding: PartConfig | None, head: PartConfig) -> str | None:
    """Why the head cannot read what the encoding gives, or None. No encoding is one of those that need a head."""
    reads_similarity = getattr(registry.find("heads", head.name).factory, "reads_similarity", False)
    if _gives_similarity(encoding) == reads_similarity:
        return None
    if encoding is not None and not reads_similarity:
        return f"'{encoding.name}' gives the prediction itself; use head 'none'."
    given = f"of what '{encoding.name}' gives" if encoding else "of features"
    return f"'{head.name}' makes no prediction {given}; use 'linear', or one of the cosine encodings."


def why_output_incompatible(encoding: PartConfig | None, output: PartConfig) -> str | None:
    """Why the output does not go with the encoding, or None."""
    similarity = _gives_similarity(encoding)
    if similarity == (output.name == "similarity"):
        return None
    need = "'similarity'" if similarity else "'raw', 'clamp' or 'sigmoid'"
    named = f"encoding '{encoding.name}'" if encoding else "this encoding"
    return f"'{output.name}' does not go with {named}; use {need}."


_dump = PlainSerializer(dump_part)
_read_sampler = BeforeValidator(partial(_read_part, "samplers", "batch-round-robin"))
SamplerConfig = Annotated[PartConfig, _read_sampler, _dump]
OptionalSamplerConfig = Annotated[PartConfig | None, _read_sampler, _dump]
EncodingConfig = Annotated[PartConfig | None, BeforeValidator(partial(_read_part, "encodings", None)), _dump]
PoolingConfig = Annotated[PartConfig | None, BeforeValidator(partial(_read_part, "pooling", None)), _dump]
HeadConfig = Annotated[PartConfig | None, BeforeValidator(partial(_read_part, "heads", "linear")), _dump]
OutputConfig = Annotated[PartConfig | None, BeforeValidator(partial(_read_part, "outputs", None)), _dump]
MetricConfig = Annotated[PartConfig, BeforeValidator(partial(_read_part, "metrics", None)), _dump]
LossConfig = Annotated[PartConfig | None, BeforeValidator(partial(_read_part, "losses", None)), _dump]
ScalarizerConfig = Annotated[PartConfig, BeforeValidator(partial(_read_part, "scalarizers", "sum")), _dump]
RegulariserConfig = Annotated[PartConfig, BeforeValidator(partial(_read_part, "regularisers", None)), _dump]
OptionalAggregatorConfig = Annotated[
    PartConfig | None, BeforeValidator(partial(_read_part, "aggregators", None)), _dump
]

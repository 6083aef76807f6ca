"""A part of the registry, named in a recipe: `loss: mse`, or `loss: {name: …, option: …}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, SerializationInfo
from pydantic_core import CoreSchema, core_schema

from manyheads import registry


class PartConfig(BaseModel):
    """A part by name, with the options that differ from its defaults."""

    model_config = ConfigDict(frozen=True)
    name: str
    options: dict[str, Any] = {}
    # options that the recipe left open and an earlier version's defaults gave
    filled: frozenset[str] = Field(frozenset(), exclude=True)

    def build(self, family: str, *given: Any) -> Any:
        return registry.find(family, self.name).factory(*given, **self.options)


@dataclass(frozen=True)
class PartFamily:
    """The type of a recipe's key that names a part: of which family, and which part's options may stand alone."""

    family: str
    default: str | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            self.read,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(_dump_in_recipe, info_arg=True),
        )

    def read(self, value: Any) -> Any:
        if value is None or isinstance(value, PartConfig):
            return value
        if isinstance(value, str):
            value = {"name": value}
        if isinstance(value, dict) and self.default is not None:
            value = {"name": self.default, **value}  # options alone belong to the default part
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise ValueError(f"expected a name, or a mapping with 'name' and options, found {value!r}")
        part = load_part(value)
        return PartConfig(name=part.name, options=registry.find(self.family, part.name).check(part.options))


AS_WRITTEN = {"as written": True}  # context of a recipe's dump that leaves out what was filled in


def _dump_in_recipe(part: PartConfig | None, info: SerializationInfo) -> Any:
    if part is not None and info.context == AS_WRITTEN:
        options = {name: value for name, value in part.options.items() if name not in part.filled}
        part = part.model_copy(update={"options": options})
    return dump_part(part)


def dump_part(part: PartConfig | None) -> Any:
    """A plain name, or a mapping with the options."""
    if part is None:
        return None
    if not part.options:
        return part.name
    return {"name": part.name, **part.options}


def load_part(dumped: Any) -> PartConfig:
    """What `dump_part` wrote, read back without checks: a saved model's parts are what they are."""
    if isinstance(dumped, PartConfig):
        return dumped
    if isinstance(dumped, str):
        return PartConfig(name=dumped)
    if not isinstance(dumped, dict) or "name" not in dumped:
        raise ValueError(f"expected a part's name, or a mapping with 'name' and options, found {dumped!r}")
    options = dict(dumped)
    return PartConfig(name=options.pop("name"), options=options)


# the types of a recipe's keys that name a part
SamplerConfig = Annotated[PartConfig, PartFamily("samplers", "mixture")]
OptionalSamplerConfig = Annotated[PartConfig | None, PartFamily("samplers", "mixture")]
EncodingConfig = Annotated[PartConfig | None, PartFamily("encodings")]
PoolingConfig = Annotated[PartConfig | None, PartFamily("pooling")]
HeadConfig = Annotated[PartConfig | None, PartFamily("heads", "linear")]
OutputConfig = Annotated[PartConfig | None, PartFamily("outputs")]
MetricConfig = Annotated[PartConfig, PartFamily("metrics")]
LossConfig = Annotated[PartConfig | None, PartFamily("losses")]
ScalarizerConfig = Annotated[PartConfig, PartFamily("scalarizers", "sum")]
RegulariserConfig = Annotated[PartConfig, PartFamily("regularisers")]
OptionalAggregatorConfig = Annotated[PartConfig | None, PartFamily("aggregators")]

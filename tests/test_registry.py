"""Parts by name: registering, finding, checking options; and the sentence that helps after a wrong name."""

from __future__ import annotations

import pytest

from manyheads import registry
from manyheads.errors import UserError, nearest
from manyheads.registry import find, parts, register


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    parts()
    monkeypatch.setattr(registry, "_parts", dict(registry._parts))


def test_a_class_registers_with_its_keyword_only_arguments_as_options() -> None:
    @register("heads", "odd", paper="B")
    class Odd:
        """First line.

        More.
        """

        def __init__(self, features: int, *, rate: float, depth: int = 2, mode: str | None = None) -> None:
            self.settings = (features, rate, depth, mode)

    part = find("heads", "odd")
    assert (part.family, part.name, part.paper, part.summary) == ("heads", "odd", "B", "First line.")
    assert list(part.options.model_fields) == ["rate", "depth", "mode"]
    assert part.check({"rate": "1e-3"}) == {"rate": 0.001}  # converted, and defaults are not written out
    assert part.factory(7, **part.check({"rate": 1, "depth": "3"})).settings == (7, 1.0, 3, None)


def test_a_function_is_a_part_too() -> None:
    @register("losses", "plain")
    def plain(outputs: int, *, scale: float = 1.0) -> float:
        """A function."""
        return outputs * scale

    part = find("losses", "plain")
    assert (part.summary, part.paper) == ("A function.", "")
    assert part.factory(3, **part.check({"scale": "2"})) == 6.0


def test_every_wrong_option_is_named_with_the_nearest() -> None:
    @register("heads", "odd")
    class Odd:
        def __init__(self, *, rate: float, depth: int = 2) -> None: ...

    with pytest.raises(ValueError, match=r"^") as caught:
        find("heads", "odd").check({"depht": 3, "depth": "deep"})
    assert str(caught.value).split("; ") == [
        "'odd' needs the option 'rate'.",
        "option 'depth' of 'odd': Input should be a valid integer, unable to parse string as an integer (found 'deep')",
        "'odd' has no option 'depht'. Did you mean 'depth'? Known: depth, rate.",
    ]


def test_an_unknown_name_lists_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"^unknown loss 'msee'\. Did you mean 'mse'\? Known: binary-cross-entropy, "):
        find("losses", "msee")
    with pytest.raises(ValueError, match=r"^unknown sampler 'zzz'\. Known: annealed, balanced, batch-round-robin"):
        find("samplers", "zzz")


def test_names_are_taken_once_per_family() -> None:
    with pytest.raises(ValueError, match="losses already has a part named 'mse'"):
        register("losses", "mse")(object)
    register("heads", "mse")(object)


def test_a_family_must_be_known() -> None:
    with pytest.raises(ValueError, match=r"unknown family 'loses'. Did you mean 'losses'"):
        register("loses", "x")
    with pytest.raises(UserError, match=r"Unknown family 'loses'. Did you mean 'losses'") as caught:
        parts("loses")
    assert caught.value.code == "unknown-family"


def test_parts_come_in_the_order_of_the_flow_and_then_by_name() -> None:
    register("losses", "aaa")(object)
    register("samplers", "zzz")(object)
    found = [(part.family, part.name) for part in parts()]
    order = list(registry.FAMILIES)
    assert found == sorted(found, key=lambda one: (order.index(one[0]), one[1]))
    assert [part.name for part in parts("losses")][:2] == ["aaa", "binary-cross-entropy"]
    assert {part.family for part in parts("losses")} == {"losses"}


def test_nearest_offers_the_closest_name_only_if_it_is_close() -> None:
    assert nearest("trian", ["train", "dev"]) == " Did you mean 'train'? Known: dev, train."
    assert nearest("xyz", ["train", "dev"]) == " Known: dev, train."
    assert nearest("x", []) == " Known: none."

"""Recipes: strictness, overrides, and messages a user can act on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weatherpp.errors import ConfigError
from weatherpp.recipe import MemberChoice, Recipe, Target, load_recipe
from weatherpp.strict import digest, set_value, validate

REPOSITORY = Path(__file__).parents[1]
NIGHTLY = "nightly"  # a job of another kind, see tests/operations
SHIPPED = [
    path for path in sorted((REPOSITORY / "pipelines").glob("*.yaml")) if path.stem != NIGHTLY
]


ALPS = {"north": 48, "south": 44, "west": 5, "east": 17}


def minimal() -> dict[str, Any]:
    return {
        "name": "r",
        "source": {"twin": {"size": "small"}},
        "targets": [{"variable": "z", "level": 500, "step": "48h"}],
        "split": {"train": [2001, 2003], "valid": [2004, 2004], "test": [2005, 2005]},
        "methods": [{"label": "raw", "method": "raw"}],
    }


def changed(path: str, value: Any) -> dict[str, Any]:
    data = minimal()
    *parents, last = path.split(".")
    node: Any = data
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else node[part]
    node[last] = value
    return data


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_recipes_are_valid_and_named_like_their_file(path: Path) -> None:
    assert load_recipe(path).name == path.stem


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("source", {}, ["source: names no data", "twin, speedy and catalog"]),
        ("metods", [], ["unknown key 'metods'", "did you mean 'methods'"]),
        ("targets.0.levle", 500, ["targets.0.levle", "did you mean 'level'"]),
        ("split.trian", [2001, 2002], ["split.trian", "did you mean 'train'"]),
        ("split.valid", [2003, 2004], ["train and valid share the year 2003"]),
        ("split.test", [2005, 2004], ["test: 2005 comes after 2004"]),
        ("targets.0.step", "soon", ["'soon' is not a lead time", "48h"]),
        ("targets.0.step", "-6h", ["'-6h' is not a lead time"]),
        ("targets.0.step", "48", ["'48' is not a lead time", "48h"]),
        ("seed", -1, ["seed"]),
        ("seed", 2**63, ["seed"]),
        ("methods.0.members", {"choose": "named", "numbers": [1, 1]}, ["a member twice"]),
        ("methods.0.label", "../../etc", ["methods.0.label"]),
        ("methods.0.members", {"choose": "first"}, ["choose: first needs a count"]),
        ("name", "a/b", ["name"]),
        ("seed", "one", ["seed"]),
        ("products", {"quantiles": [0.5, 0.1]}, ["quantile levels must ascend"]),
        (
            "claims",
            [{"name": "c", "target": "z500", "better": "emos", "than": "raw"}],
            ["claim 'c' names the unknown method emos"],
        ),
    ],
)
def test_faults_are_named(path: str, value: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(Recipe, changed(path, value), "r.yaml")
    message = str(caught.value)
    assert message.startswith("r.yaml: ")
    assert "\n" not in message
    for word in words:
        assert word in message


def test_labels_must_differ() -> None:
    data = changed("methods", [{"label": "a", "method": "raw"}, {"label": "a", "method": "bias"}])
    with pytest.raises(ConfigError, match="two methods have the label a"):
        validate(Recipe, data, "r.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1", "not valid YAML"),
        ("- a\n- b\n", "a recipe is a list of 'key: value' lines"),
        ("", "a recipe is a list of 'key: value' lines"),
        ("name: a\nname: b\n", "line 1: not valid YAML .*'name' stands twice"),
        ("title: 2001-02-30\n", "not valid YAML .*day"),
        ("a: " + "[" * 3000, "not valid YAML"),
        ("!!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_unusable_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_recipe(path)


def test_missing_and_binary_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_recipe(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_recipe(tmp_path / "b.yaml")


def test_set_overrides_nested_values_and_list_items(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(yaml.safe_dump(minimal()))
    recipe = load_recipe(
        path, ("seed=7", "targets.0.step=24h", "verify.bootstrap.block=6", "source.twin.size=full")
    )
    assert recipe.seed == 7
    assert recipe.targets[0].step == "24h"
    assert recipe.verify.bootstrap.block == 6
    assert recipe.model_dump()["source"]["twin"]["size"] == "full"


@pytest.mark.parametrize("text", ["seed", "=3", "targets.9.step=1h", "name.a=1", "targets.x.y=1"])
def test_set_refuses_what_leads_nowhere(text: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        set_value(minimal(), text)


def test_member_choice_defaults_to_all() -> None:
    assert MemberChoice().choose == "all"
    with pytest.raises(ValueError, match="numbers go with"):
        MemberChoice(choose="first", count=2, numbers=(1,))


@given(st.integers(0, 400), st.sampled_from(["h", "min", "D"]))
def test_steps_round_trip(count: int, unit: str) -> None:
    target = Target(variable="t2m", step=f"{count}{unit}")
    assert target.lead == Target(variable="t2m", step=str(target.lead)).lead


def test_digest_depends_on_content_alone() -> None:
    one, two = (validate(Recipe, minimal(), "r") for _ in range(2))
    assert digest(one, ["a"]) == digest(two, ["a"])
    assert digest(one) != digest(validate(Recipe, changed("seed", 2), "r"))
    assert digest("a", "b") != digest("ab")


def test_one_entry_stands_for_many() -> None:
    data = minimal()
    data["methods"] += [
        {"label": "emos-{count}", "method": "emos", "each": {"count": [2, 5]}},
        {
            "label": "net-{years}y-s{seed}",
            "method": "mixed",
            "members": {"choose": "first", "count": 5},
            "each": {"years": [1, 3], "seed": [1, 2]},
        },
    ]
    recipe = validate(Recipe, data, "r")
    labels = ["raw", "emos-2", "emos-5", "net-1y-s1", "net-1y-s2", "net-3y-s1", "net-3y-s2"]
    assert [entry.label for entry in recipe.methods] == labels
    assert recipe.methods[2].members == MemberChoice(choose="first", count=5)
    last = recipe.methods[-1]
    assert (last.years, last.seed, last.members.count) == (3, 2, 5)


def test_entries_that_stand_for_networks_of_several_sizes() -> None:
    entry = {
        "label": "net-{width}x{depth}",
        "method": "mixed",
        "settings": {"width": 4, "dropout": 0.1},
        "each": {"width": [8, 16], "depth": [1]},
    }
    recipe = validate(Recipe, {**minimal(), "methods": [entry]}, "r")
    assert [method.label for method in recipe.methods] == ["net-8x1", "net-16x1"]
    assert recipe.methods[1].settings == {"width": 16, "depth": 1, "dropout": 0.1}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"label": "emos", "each": {"count": [2]}}, "must hold {count}"),
        ({"label": "emos-{count}-{x}", "each": {"count": [2]}}, "must hold {count}"),
        ({"label": "emos-{count", "each": {"count": [2]}}, "must hold {count}"),
        ({"label": "emos-{count.real}", "each": {"count": [2]}}, "must hold {count}"),
        ({"label": "emos-{wide}", "each": {"wide": [2]}}, "known are count, seed, years, width"),
        ({"label": "e-{width}", "settings": 1, "each": {"width": [2]}}, "settings: expected"),
        ({"label": "emos-{count}", "each": {"count": 2}}, "lists of values"),
        ({"label": "emos-{count}", "each": {}}, "lists of values"),
        ({"label": "emos-{seed}", "each": {"seed": list(range(999))}}, "more than 500"),
        ({"label": "emos-{count:>999999}", "each": {"count": [2]}}, "must hold {count}"),
        ({"label": "e-{count}", "members": None, "each": {"count": [2]}}, "give keys such as"),
    ],
)
def test_entries_that_stand_for_nothing_clear(entry: dict[str, Any], words: str) -> None:
    data = {**minimal(), "methods": [{"method": "emos", **entry}]}
    with pytest.raises(ConfigError, match=re.escape(words)) as error:
        validate(Recipe, data, "r")
    assert "\n" not in str(error.value)


def test_targets_at_several_leads_have_labels() -> None:
    targets = [{"variable": "z", "level": 500, "step": step} for step in ("24h", "48h")]
    with pytest.raises(ConfigError, match="give them labels"):
        validate(Recipe, {**minimal(), "targets": targets}, "r")
    named = [{**target, "label": f"z500-{target['step']}"} for target in targets]
    recipe = validate(Recipe, {**minimal(), "targets": named}, "r")
    assert [target.name for target in recipe.targets] == ["z500-24h", "z500-48h"]


def spread_methods(**change: Any) -> list[dict[str, Any]]:
    part = {"job": "spread", "members": {"choose": "first", "count": 5}}
    return [
        {"label": "a", "method": "raw", **part},
        {"label": "b", "method": "raw", **part, "full": "others"},
        {"label": "c", "method": "emos", **change},
        {"label": "d", "method": "raw"},
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"methods": spread_methods(full="others")}, "full: others goes with job: spread"),
        (
            {
                "methods": spread_methods(),
                "claims": [
                    {
                        "name": "n",
                        "target": "z500",
                        "score": "spread_rmse",
                        "better": "a",
                        "than": "b",
                    }
                ],
            },
            "spreads of different ensembles",
        ),
        (
            {
                "methods": spread_methods(),
                "claims": [
                    {
                        "name": "n",
                        "target": "z500",
                        "better": "c",
                        "than": "d",
                        "region": "extreme dates",
                    }
                ],
            },
            "set verify.extremes",
        ),
        (
            {
                "methods": spread_methods(),
                "claims": [
                    {"name": "n", "target": "z500", "better": "c", "than": "d", "region": "Alps"}
                ],
            },
            "unknown region Alps; known: whole grid, northern",
        ),
        (
            {"verify": {"regions": {"tropics": ALPS}}},
            "weatherpp has a region tropics of its own",
        ),
        ({"verify": {"regions": {"4 <b>": ALPS}}}, "a letter first"),
        (
            {"verify": {"regions": {"Alps": {**ALPS, "south": 50}}}},
            "verify.regions.Alps: south 50 is not south of north 48",
        ),
        ({"report": {"highlights": ["x"]}}, "highlights names the unknown method x"),
        ({"report": {"thresholds": {"z500": [float("nan")]}}}, "finite"),
        (
            {
                "methods": spread_methods(),
                "claims": [{"name": "n", "target": "z500", "better": "c", "than": "a"}],
            },
            "crps is a score of job: forecast, but a has job: spread",
        ),
        (
            {
                "verify": {
                    "curves": [
                        {
                            "title": "t",
                            "by": "b",
                            "score": "spread_rmse",
                            "lines": {"l": {1: "raw"}},
                        }
                    ]
                }
            },
            "curve 't': spread_rmse is a score of job: spread",
        ),
        (
            {"verify": {"curves": [{"title": "t", "by": "b", "lines": {"l": {1: "x"}}}]}},
            "curve 't' names the unknown method x",
        ),
    ],
)
def test_comparisons_that_cannot_be_made(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as error:
        validate(Recipe, {**minimal(), **change}, "r")
    assert "\n" not in str(error.value)

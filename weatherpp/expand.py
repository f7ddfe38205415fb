"""Recipe entries that stand for many: one for each combination of listed values."""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Mapping
from typing import Any

KNOWN = ("count", "seed", "years", "width", "depth")
SETTINGS = ("width", "depth")
MOST = 500  # entries; more are a slip of the pen


def expand(entries: Any) -> Any:
    """Replace every entry that has ``each`` by those it stands for.

    ``{label: "emos-{count}", method: emos, each: {count: [2, 5]}}`` becomes ``emos-2`` with the
    first two members and ``emos-5`` with the first five. ``count`` goes to ``members``, ``seed``
    and ``years`` to the keys of that name, ``width`` and ``depth`` to the settings. What is no list
    of mappings is given back as it is, for the model to refuse.

    Raises
    ------
    ValueError
        ``each`` is no mapping of lists, or the label does not tell the entries apart.
    """
    if not isinstance(entries, (list, tuple)):
        return entries
    out: list[Any] = []
    for entry in entries:
        out += _expanded(entry) if isinstance(entry, Mapping) and "each" in entry else [entry]
    if len(out) > MOST:
        raise ValueError(f"the recipe stands for {len(out)} methods; at most {MOST}")
    return out


def _expanded(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    each, label = entry["each"], str(entry.get("label", ""))
    lists = isinstance(each, Mapping) and all(isinstance(v, list) and v for v in each.values())
    if not lists or not each:
        raise ValueError("each takes lists of values, such as each: {count: [2, 5, 10]}")
    for name in each:
        if name not in KNOWN:
            raise ValueError(f"each.{name}: known are {', '.join(KNOWN)}")
    try:
        parts = [part for part in string.Formatter().parse(label) if part[1] is not None]
        # a format could ask for any width
        told = {name for _, name, form, change in parts if not form and not change}
    except ValueError:
        told = set()
    if told != set(each):
        names = "".join(f"{{{name}}}" for name in each)
        raise ValueError(
            f"label: '{label}' must hold {names} once each, and nothing else in braces"
        )
    if math.prod(map(len, each.values())) > MOST:
        raise ValueError(f"label: '{label}' stands for more than {MOST} methods")
    rest = {key: value for key, value in entry.items() if key != "each"}
    if not isinstance(rest.get("members", {}), Mapping):
        raise ValueError("members: with each.count, give keys such as choose, or leave it out")
    if not isinstance(rest.get("settings", {}), Mapping):
        raise ValueError("settings: expected 'key: value' lines")
    out = []
    for values in itertools.product(*each.values()):
        chosen = dict(zip(each, values, strict=True))
        made = {**rest, "label": label.format(**chosen)}
        if "count" in chosen:
            members = rest.get("members", {})
            made["members"] = {"choose": "first", **members, "count": chosen.pop("count")}
        own = {name: chosen.pop(name) for name in SETTINGS if name in chosen}
        if own:
            made["settings"] = {**rest.get("settings", {}), **own}
        out.append({**made, **chosen})
    return out

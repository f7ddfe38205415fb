"""The model card: what a model folder holds, in words for whoever finds it in a year."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CARD = "MODEL_CARD.md"


def model_card(content: Mapping[str, Any], summary: str, notes: Sequence[str]) -> str:
    """Markdown text.

    Parameters
    ----------
    content
        Of ``model.json``: method, target, settings, and what the fit told of its data.
    summary
        What the method does, one line.
    notes
        What the fit found.
    """
    target = content["target"]
    level = "" if target["level"] is None else f" at {target['level']} hPa"
    lines = [
        f"# {content['method']}: {_text(target['variable'])}{level}, {target['step']} ahead",
        "",
        summary,
        "",
        *_data(content),
        *(f"- {_text(note)}" for note in notes),
        f"- Made by weatherpp {content.get('weatherpp', '')}, seed {content.get('seed', '')}.",
        "",
        "## Settings",
        "",
        *_settings(content["settings"]),
        "",
        "## Limits",
        "",
        "- It holds for the forecast system, grid, variable, level and lead time it was fitted on; "
        "a new model version needs a new fit.",
        "- Dates like none in training are extrapolation, extremes above all.",
        "- `model.json` has the hash of each file; none is a pickle.",
    ]
    return "\n".join(lines) + "\n"


def _data(content: Mapping[str, Any]) -> list[str]:
    lines = []
    source = content.get("source") or {}
    if source.get("title"):
        lines.append(f"- Data: {_text(source['title'])}")
    if source.get("licence"):
        lines.append(f"- Licence of the data: {_text(source['licence'])}")
    if "numbers" in content:
        numbers = ", ".join(str(number) for number in content["numbers"])
        lines.append(f"- Members: {numbers}")
    for name, word in (("train", "Trained"), ("valid", "Validated")):
        first, last, count = content.get(name) or ("", "", 0)
        if count:
            lines.append(f"- {word} on {count} initial dates from {first[:10]} to {last[:10]}")
    return lines


def _settings(settings: Mapping[str, Any], before: str = "") -> list[str]:
    lines: list[str] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines += _settings(value, f"{before}{name}.")
        else:
            lines.append(f"- `{before}{name}`: {_text(value)}")
    return lines or ["- none"]


def _text(value: Any) -> str:
    """One line that is no markup, whatever a catalog entry says."""
    words = " ".join(str(value).split())
    return "".join(f"\\{char}" if char in "\\`*_<>[]#|" else char for char in words)

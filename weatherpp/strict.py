"""What all settings share: strict models, one line for each fault, YAML read with care, hashes."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from weatherpp.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Strict(BaseModel):
    """Base of all recipe models: immutable, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _nearest(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(sorted(known))}"


def _known_keys(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Field names valid at an error's location, searched through nested models."""
    models: list[type[BaseModel]] = [model]
    for part in location[:-1]:
        found: list[type[BaseModel]] = []
        for candidate in models:
            if part in candidate.model_fields:
                found += _models_in(candidate.model_fields[str(part)].annotation)
        # list indices and names of union members do not lead to another model
        models = found or models
    return sorted({name for candidate in models for name in candidate.model_fields})


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for arg in getattr(annotation, "__args__", ()) for model in _models_in(arg)]


def validate(model: type[Model], data: Any, where: str) -> Model:
    """Check ``data`` against ``model``.

    Raises
    ------
    ConfigError
        With one line naming the place (``where``), the key, the fault and the remedy.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: expected 'key: value' lines, found {type(data).__name__}")
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        # an unknown key explains most other faults of the same model, so name it first
        faults.sort(key=lambda fault: fault["type"] != "extra_forbidden")
        first = faults[0]
        # names of union members are ours, not the user's
        path = ".".join(str(part) for part in first["loc"] if not str(part)[:1].isupper())
        if first["type"] == "extra_forbidden":
            key = str(first["loc"][-1])
            message = f"unknown key '{path}'" + _nearest(key, _known_keys(model, first["loc"]))
        else:
            text = first["msg"].removeprefix("Value error, ")
            message = f"{path}: {text}" if path else text
        raise ConfigError(f"{where}: {message}") from None


class _UniqueKeys(yaml.SafeLoader):
    """Safe loader that refuses a key given twice, where YAML would let the last one win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if isinstance(key, str) and keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' stands twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """Content of a YAML file, safe loader only; a key given twice is refused.

    Raises
    ------
    ConfigError
        The file cannot be read or is not YAML.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read ({reason})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None)
        reason = f" ({problem})" if problem else ""
        raise ConfigError(f"{path}{line}: not valid YAML{reason}") from None
    except (ValueError, RecursionError) as error:  # impossible dates, endless nesting
        reason = str(error).split(";")[0].split(":")[0]
        raise ConfigError(f"{path}: not valid YAML ({reason})") from None


def set_value(data: dict[str, Any], assignment: str) -> None:
    """Apply one ``a.b=c`` override in place; the value is read as YAML, list items by index.

    Raises
    ------
    ConfigError
        The assignment has no ``=`` or its path does not lead into the recipe.
    """
    path, separator, text = assignment.partition("=")
    if not separator or not path:
        raise ConfigError(f"--set {assignment}: write it as key.key=value")
    *parents, last = path.split(".")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"--set {assignment}: the value is not valid YAML; quote it") from None
    node: Any = data
    try:
        for part in parents:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        node[int(last) if isinstance(node, list) else last] = value
    except (ValueError, IndexError, TypeError, AttributeError):
        raise ConfigError(f"--set {assignment}: the recipe has no such place") from None


def load(model: type[Model], path: Path, overrides: Sequence[str] = ()) -> Model:
    """Read a file of settings, apply ``a.b=c`` overrides, and check it.

    Raises
    ------
    ConfigError
        With one line for the user.
    """
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a recipe is a list of 'key: value' lines")
    for assignment in overrides:
        set_value(data, assignment)
    return validate(model, data, str(path))


def digest(*parts: Any) -> str:
    """Short, stable hash of settings: models, plain containers and text."""

    def plain(part: Any) -> Any:
        if isinstance(part, BaseModel):
            return part.model_dump(mode="json")
        raise TypeError(f"no hash of {type(part).__name__}")

    text = json.dumps(parts, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

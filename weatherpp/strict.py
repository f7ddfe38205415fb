"""What all settings share: strict models, one line for each fault, YAML read with care, hashes."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails

from weatherpp.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
LABEL = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
SHORT_NAME = r"^[a-z][a-z0-9]{0,15}$"
REGION = r"^[A-Za-z][A-Za-z0-9 ._-]{0,38}[A-Za-z0-9]$"
Label = Annotated[str, Field(pattern=LABEL)]
ShortName = Annotated[str, Field(pattern=SHORT_NAME)]
RegionName = Annotated[str, Field(pattern=REGION)]


class _Flag:
    """A YAML ``true`` or ``false`` where none belongs; pydantic would take it for 1 or 0."""

    def __init__(self, value: bool):
        self.value = value

    def __str__(self) -> str:
        return "true" if self.value else "false"

    __repr__ = __str__  # as a key it is shown by its repr


def _flagged(value: Any, deep: bool) -> Any:
    """``value`` with its truth values marked; ``deep`` goes into mappings too."""
    if isinstance(value, bool):
        return _Flag(value)
    if isinstance(value, (list, tuple)):
        return [_flagged(item, deep) for item in value]
    if deep and isinstance(value, Mapping):
        return {_flagged(key, deep): _flagged(item, deep) for key, item in value.items()}
    return value


class Strict(BaseModel):
    """Base of all recipe models: immutable, unknown keys refused, numbers finite, and ``true`` and
    ``false`` no numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[str(info.field_name)].annotation
        if _takes_truth(annotation):
            return value
        return _flagged(value, deep=not _models_in(annotation))  # models look by themselves


def _takes_truth(annotation: Any) -> bool:
    """Whether a truth value may stand somewhere in what is annotated so."""
    if annotation in (bool, Any) or isinstance(annotation, bool):
        return True
    return any(map(_takes_truth, get_args(annotation)))


def _nearest(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    others = f"known: {', '.join(sorted(known))}" if known else "there are none here"
    return f"; did you mean '{near[0]}'?" if near else f"; {others}"


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
    return [model for arg in get_args(annotation) for model in _models_in(arg)]


LINES = "'key: value' lines"
_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": LINES,
    "model_type": LINES,
    "model_attributes_type": LINES,
}
_REFUSED = {
    "missing": "is missing",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be {le} or less",
    "finite_number": "must be a finite number",
    "string_too_short": "must not be empty",
    "too_short": "must have {min_length} or more entries, has {actual_length}",
    "too_long": "must have {max_length} or fewer entries, has {actual_length}",
}
_PATTERNS = {
    REGION: "must be 2 to 40 letters, digits, blanks, '.', '_' or '-', a letter first",
    LABEL: "must be letters, digits, '.', '_' or '-', at most 64, a letter or digit first",
    SHORT_NAME: "must be a short name of small letters and digits, such as t2m",
}
# what pydantic puts into the place of a fault besides the user's own keys
_INTERNAL = re.compile(r"\[key\]|([A-Z]\w*|str|int|float|bool|tuple|list|dict|function-\w+)(\[.*)?")


def _shown(value: Any) -> str:
    """A value as it would stand in YAML, cut short."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "'key: value' lines"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
    text = text if len(text) <= 40 else f"{text[:37]}..."
    return f"'{text}'" if isinstance(value, str) else text


def _place(location: tuple[int | str, ...], data: Any) -> str:
    """Where a fault lies, in the keys of ``data``; names of union members are left out."""
    parts: list[str] = []
    for part in location:
        mine = isinstance(part, int) or (isinstance(data, Mapping) and part in data)
        if not mine and _INTERNAL.fullmatch(str(part)):
            continue
        parts.append(str(part))
        try:
            data = data[part]
        except (LookupError, TypeError):
            data = None
    return ".".join(parts)


def fault_line(error: ValidationError, data: Any) -> str:
    """The first fault that pydantic found in ``data``, in words: which key, what is wrong with it,
    what is allowed."""
    faults = error.errors(include_url=False)
    first = faults[0]
    place = _place(first["loc"], data)
    if first["type"] == "value_error":
        text = first["msg"].removeprefix("Value error, ")
    elif first["type"] in _EXPECTED or first["type"] == "literal_error":
        # of a union each member has a fault of its own
        same = [fault for fault in faults if _place(fault["loc"], data) == place]
        wanted = list(dict.fromkeys(filter(None, map(_wanted, same))))
        if "a number" in wanted:
            wanted = [each for each in wanted if each != "a whole number"]
        if first["input"] is None:  # a key with nothing behind it
            wanted = [f"{each} ({{}} for none)" if each == LINES else each for each in wanted]
        text = f"expected {' or '.join(wanted)}, found {_shown(first['input'])}"
    else:
        text = _refusal(first)
    return f"{place}: {text}" if place else text


def _wanted(fault: ErrorDetails) -> str | None:
    if fault["type"] == "literal_error":
        return str(fault["ctx"]["expected"]).replace("'", "")
    return _EXPECTED.get(fault["type"])


def _refusal(fault: ErrorDetails) -> str:
    # bounds of numbers come as floats, those of whole numbers are told to the last digit
    context = {
        name: f"{value:g}" if isinstance(value, float) else value
        for name, value in fault.get("ctx", {}).items()
    }
    found = f", found {_shown(fault['input'])}"
    if fault["type"] == "string_pattern_mismatch":
        pattern = context["pattern"]
        return _PATTERNS.get(pattern, f"must have the form {pattern}") + found
    text = _REFUSED.get(fault["type"])
    if text is None:
        return fault["msg"]
    counted = fault["type"] in ("missing", "too_short", "too_long", "string_too_short")
    return text.format(**context) + ("" if counted else found)


def validate(model: type[Model], data: Any, where: str) -> Model:
    """Check ``data`` against ``model``.

    Raises
    ------
    ConfigError
        With one line naming the place (``where``), the key, the fault and the remedy.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: expected {LINES}, found {_shown(data)}")
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        raise ConfigError(f"{where}: {_told(model, error, data)}") from None


def _told(model: type[BaseModel], error: ValidationError, data: Any) -> str:
    for fault in error.errors(include_url=False):
        if fault["type"] == "extra_forbidden":
            key, place = str(fault["loc"][-1]), _place(fault["loc"], data)
            return f"unknown key '{place}'{_nearest(key, _known_keys(model, fault['loc']))}"
    return fault_line(error, data)


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

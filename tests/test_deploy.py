"""What is deployed and what the runbook says fit the program."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer

from weatherpp.cli import app
from weatherpp.operations.settings import PREFIX, load_nightly

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text("utf-8")


def unit(name: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string((DEPLOY / name).read_text("utf-8"))
    return found


def check_command(words: list[str]) -> None:
    """Command and options exist."""
    command: Any = typer.main.get_command(app)
    assert words[0].rpartition("/")[2] == "weatherpp"
    rest = [word for word in words[1:] if word != "--debug"]
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    assert not hasattr(command, "commands"), words
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in rest if word.startswith("--")} <= known, words


def test_the_service_runs_the_command() -> None:
    service = unit("weatherpp-nightly.service")["Service"]
    check_command(shlex.split(service["ExecStart"]))
    assert service["Type"] == "oneshot"
    assert service["User"] != "root"
    assert service["SuccessExitStatus"] == "5"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    for name in ("weatherpp-nightly.service", "weatherpp-nightly.timer"):
        text = (DEPLOY / name).read_text("utf-8")
        (tmp_path / name).write_text(text.replace("/opt/weatherpp/bin/weatherpp", "/bin/true"))
    verify = ["systemd-analyze", "verify", str(tmp_path / "weatherpp-nightly.timer")]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "weatherpp-nightly" not in done.stderr


def test_the_cron_line_runs_the_command() -> None:
    lines = (DEPLOY / "weatherpp-nightly.cron").read_text("utf-8").splitlines()
    (line,) = [each for each in lines if re.match(r"[\d*]", each)]
    *when, user, command = line.split(maxsplit=6)
    assert len(when) == 5
    assert user != "root"
    assert "%" not in command  # a line break to cron
    check_command(shlex.split(command.rpartition("&& ")[2].partition(" 2>>")[0]))
    assert "CRON_TZ=UTC" in lines


def test_the_environment_fits_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (DEPLOY / "nightly.env").read_text("utf-8").splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = load_nightly(ROOT / "pipelines" / "nightly.yaml")
    assert settings.source.wait == given[f"{PREFIX}SOURCE__WAIT"]
    assert settings.alerts.webhook == given[f"{PREFIX}ALERTS__WEBHOOK"]


def test_the_recipe_of_open_data_asks_for_what_its_targets_need() -> None:
    settings = load_nightly(DEPLOY / "opendata.yaml")
    (name,) = settings.source.names("forecast", pd.Timestamp("2026-11-30T12"))
    assert name == "20261130/12z/ifs/0p25/enfo/20261130120000-48h-enfo-ef.grib2"
    asked = {
        (param, level)
        for wanted in settings.source.fields
        for param in wanted["param"]
        for level in wanted["levelist"]
    }
    names = {key: each.source or key for key, each in settings.source.variables.items()}
    assert asked == {(names[each.variable], str(each.level)) for each in settings.targets}


def test_the_container_file() -> None:
    text = (DEPLOY / "Containerfile").read_text("utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    known = {"FROM", "ENV", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in steps} <= known
    assert steps[0][0] == "FROM"
    assert re.search(r":\d+\.\d+", steps[0][1])  # a version, never latest
    for name, words in steps:
        if name == "COPY":
            *sources, _ = words.split()
            assert all((ROOT / source).exists() for source in sources), words
    last_run = max(at for at, (name, _) in enumerate(steps) if name == "RUN")
    users = [words for name, words in steps[last_run:] if name == "USER"]
    assert users
    assert "root" not in users
    said = dict(steps)
    check_command([*json.loads(said["ENTRYPOINT"]), *json.loads(said["CMD"])])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = re.findall(r"'\.\[(\w+)\]'", text)
    assert extras
    assert set(extras) <= set(project["optional-dependencies"])


def texts() -> Iterator[str]:
    """All text in the program, that of implicitly joined literals joined."""
    for path in (ROOT / "weatherpp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_the_runbook_quotes_what_the_program_says() -> None:
    said = "\n".join(texts())
    rows = re.findall(r"^\| `([^`]+)`.* \|$", RUNBOOK, flags=re.M)
    assert len(rows) > 30
    of_the_system = {"No space left on device"}
    assert [row for row in rows if row not in said and row not in of_the_system] == []


def test_the_runbook_names_every_exit_code() -> None:
    assert re.findall(r"^## Exit code (\d)", RUNBOOK, flags=re.M) == list("12345")


def test_the_commands_of_the_runbook_exist() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", RUNBOOK, flags=re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`(weatherpp [^`]+)`", RUNBOOK)
    commands = [line for line in [*lines, *spans] if line.startswith("weatherpp ")]
    assert len(commands) > 15
    for command in commands:
        check_command(shlex.split(command, comments=True))

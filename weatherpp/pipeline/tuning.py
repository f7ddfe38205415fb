"""Search for a method's settings, scored on the validation dates alone.

Every trial is one fit with other values of the settings under ``search``. They are proposed by
optuna from the trials before (tree-structured Parzen estimator, Bergstra, J. et al. 2011, Advances
in Neural Information Processing Systems 24), whose generator is seeded anew for each trial; so a
search that was interrupted goes on to the trials it would have come to.
"""

from __future__ import annotations

import copy
import csv
import dataclasses
import io
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml

from weatherpp.conventions import has_gaps
from weatherpp.data.archive import Archive
from weatherpp.data.fields import ensemble_spread, subsample
from weatherpp.errors import ConfigError, InputError, WeatherppError
from weatherpp.files import write_whole
from weatherpp.methods.base import FitData, Method, method_class
from weatherpp.methods.recent import Recent
from weatherpp.pipeline.job import Job
from weatherpp.pipeline.plan import last_years
from weatherpp.pipeline.products import without_scalars
from weatherpp.pipeline.progress import Terminal
from weatherpp.pipeline.stages import RunFolder, source_digest
from weatherpp.recipe import MethodEntry, Range, Search, Target, YearSplit, load_recipe
from weatherpp.strict import digest
from weatherpp.verify import scores
from weatherpp.verify.aggregate import per_date
from weatherpp.verify.weights import grid_weights

T = TypeVar("T", MethodEntry, Target)
STUDIES, TRIALS = "studies.db", "trials.csv"


class Trial(NamedTuple):
    """One fit: values of the searched settings, and the score or why there is none."""

    values: dict[str, Any]
    score: float | None
    fault: str


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What a search found.

    Attributes
    ----------
    entry
        The method's entry in the recipe.
    trials
        In the order they were made.
    unit
        Of the score.
    table
        File that lists the trials.
    """

    entry: MethodEntry
    trials: list[Trial]
    unit: str
    table: Path

    @property
    def best(self) -> int:
        """Which trial has the lowest score; the first of equals."""
        scored = [math.inf if trial.score is None else trial.score for trial in self.trials]
        return scored.index(min(scored))

    def summary(self) -> str:
        """The best settings as YAML to put into the recipe."""
        best, count = self.trials[self.best], len(self.trials)
        what = "RMSE of the spread" if self.entry.job == "spread" else "CRPS"
        settings = with_values(self.entry.settings, best.values)
        text = yaml.safe_dump({"settings": settings}, sort_keys=False, allow_unicode=True)
        return (
            f"# {self.entry.label}: {what} {best.score:.5g} {self.unit} on the validation dates, "
            f"trial {self.best} of {count}; all in {self.table}\n{text.rstrip()}"
        )


def tune(
    path: Path,
    *,
    label: str,
    target: str,
    trials: int,
    overrides: tuple[str, ...] = (),
    run_dir: Path | None = None,
    terminal: Terminal,
) -> Tuned:
    """Search the settings of one method for one target; goes on with the trials there are.

    The score is the area mean of the CRPS, or for spread jobs the RMSE of the spread, over the
    validation dates. Test dates are not read.

    Parameters
    ----------
    path
        Recipe file.
    label, target
        Of the method and of the target.
    trials
        How many there shall be in all.
    overrides, run_dir, terminal
        As for :func:`weatherpp.pipeline.run.run_recipe`.

    Raises
    ------
    ConfigError
        Optuna is not installed, the recipe cannot be searched, or no trial gave a score.
    InputError, LockedError, WeatherppError
        As for a run.
    """
    optuna = _optuna()
    recipe = load_recipe(path, overrides)
    entry = _named(recipe.methods, "label", label, "method")
    field = _named(recipe.targets, "name", target, "target")
    if not isinstance(recipe.split, YearSplit):
        raise ConfigError(f"{path}: tune needs a split into years to train, validate and test")
    own = _own_values(entry, field)
    run = RunFolder(run_dir or Path("runs") / recipe.name, on_task=terminal.on_task)
    job = Job(recipe, path.read_text(encoding="utf-8"), run, terminal)
    job.methods()
    with run.locked():
        archive_hash = job.ingest()
        job.trusted = run.done["ingest/archive"]  # hashed just now
        job.trust(archive_hash)
        archive = Archive.open(job.archive_path)
        job.check(archive)
        folder = run.path / "tuning" / field.name / entry.label
        folder.mkdir(parents=True, exist_ok=True)
        name = digest(
            entry,
            entry.search,
            field,
            recipe.split,
            recipe.seed,
            archive_hash,
            source_digest("fit"),
        )
        data = _data(job, archive, field, entry)
        with _quiet(optuna), _readable(folder / STUDIES):
            study = optuna.create_study(
                storage=f"sqlite:///{(folder / STUDIES).resolve()}",
                study_name=name,
                load_if_exists=True,
            )
            search = _Search(optuna, study, job, data, entry, folder / TRIALS)
            search.go_on(own, trials)
            found = search.finished()[:trials]
    if all(trial.score is None for trial in found):
        raise ConfigError(
            f"method {label}: no trial gave a score; change its 'search' (the first: "
            f"{found[0].fault})"
        )
    return Tuned(entry, found, str(data.full.attrs.get("units", "1")), folder / TRIALS)


def with_values(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others at places such as ``training.learning_rate``."""
    out = copy.deepcopy(dict(settings))
    for path, value in values.items():
        *parents, last = path.split(".")
        node = out
        for part in parents:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise ConfigError(f"search.{path}: {part} is a single setting; nothing is below it")
        node[last] = value
    return out


def validation_score(method: Method, data: FitData, job: str) -> float:
    """Score of a fitted method on the validation dates; less is better.

    Parameters
    ----------
    method
        Fitted on ``data``.
    data
        With validation dates.
    job
        ``spread``: root mean square error of the spread against that of the full ensemble. Else
        the mean CRPS against the analysis; of members the plain one. Over space by area.
    """
    dist = method.predict(data.forecast.sel(time=data.valid)).compute()
    if job == "spread":
        full = data.full.sel(time=data.valid).load()
        field = scores.spread_squared_error(dist, without_scalars(ensemble_spread(full)))
    else:
        assert data.truth is not None  # a fit would have been refused
        truth = without_scalars(data.truth.sel(time=data.valid).load())
        field = scores.crps(dist, truth, scores.estimators_of(dist)[0])
    gaps = any(map(has_gaps, [*dist.data_vars.values(), *([] if job == "spread" else [truth])]))
    value = float(per_date(field, grid_weights(field), "omit" if gaps else "raise").mean())
    return math.sqrt(value) if job == "spread" else value


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError:
        raise ConfigError(
            "tune needs the package optuna, which is not installed; install it with "
            "'pip install weatherpp[tune]'"
        ) from None
    return optuna


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """No chatter of optuna: its log and its warnings are not for users."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="optuna")
            yield
    finally:
        optuna.logging.set_verbosity(level)


@contextmanager
def _readable(studies: Path) -> Iterator[None]:
    """Say in words that the record of the trials, an SQLite file, cannot be used."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import DBAPIError  # comes with optuna

    try:
        yield
    except (DBAPIError, StorageInternalError) as error:
        reason = " ".join(str(getattr(error, "orig", error)).split())
        raise InputError(
            f"{studies}: the trials made so far cannot be used ({reason}); remove it to begin the "
            "search anew"
        ) from None


def _named(items: tuple[T, ...], key: str, name: str, what: str) -> T:
    for item in items:
        if getattr(item, key) == name:
            return item
    known = ", ".join(str(getattr(item, key)) for item in items)
    raise ConfigError(f"--{what} {name}: the recipe has no such {what}; there are {known}")


def _own_values(entry: MethodEntry, target: Target) -> dict[str, Any]:
    """The recipe's own values of the settings that are to be searched.

    Raises
    ------
    ConfigError
        There is nothing to search, or no such setting.
    """
    if not entry.search:
        raise ConfigError(
            f"method {entry.label} has nothing to search; add for example "
            "search: {training.learning_rate: {low: 1.0e-3, high: 1.0e-2, log: true}} to its entry"
        )
    cls = method_class(entry.method)
    all_settings = cls(target, entry.settings).settings.model_dump()
    own: dict[str, Any] = {}
    for path, search in entry.search.items():
        node: Any = all_settings
        for part in path.split("."):
            node = node.get(part, {}) if isinstance(node, dict) else {}
        if isinstance(node, dict):
            first = search.low if isinstance(search, Range) else search[0]
            cls(target, with_values(entry.settings, {path: first}))  # refused, with a better word
            raise ConfigError(f"method {entry.label}: search.{path} is no single setting")
        own[path] = node
    return own


def _holds(search: Search, value: Any) -> bool:
    if isinstance(search, Range):
        return isinstance(value, (int, float)) and search.low <= value <= search.high
    return value in search


def _distribution(optuna: Any, search: Search) -> Any:
    kinds = optuna.distributions
    if not isinstance(search, Range):
        return kinds.CategoricalDistribution(search)
    whole = isinstance(search.low, int) and isinstance(search.high, int)
    kind = kinds.IntDistribution if whole else kinds.FloatDistribution
    return kind(search.low, search.high, log=search.log)


def _data(job: Job, archive: Archive, target: Target, entry: MethodEntry) -> FitData:
    """Training and validation dates of the method's entry."""
    (fold,) = job.folds(archive, target, entry.job)
    fold = last_years(fold, entry.years)
    chosen = subsample(archive.forecast, entry.members, job.seed(entry))
    chosen = chosen.sel(time=fold.train.union(fold.valid))
    method = method_class(entry.method)(target, entry.settings)
    data = job.fit_data(archive, target, method, chosen, fold, entry)
    return dataclasses.replace(data, seed=job.seed(entry))


@dataclasses.dataclass(frozen=True)
class _Search:
    """A study of optuna at work on a method."""

    optuna: Any
    study: Any
    job: Job
    data: FitData
    entry: MethodEntry
    table: Path

    def go_on(self, own: Mapping[str, Any], trials: int) -> None:
        """Make the trials that are missing; the first has the recipe's ``own`` values if it may."""
        state, study = self.optuna.trial.TrialState, self.study
        for left in study.get_trials(deepcopy=False, states=(state.RUNNING,)):
            study.tell(left.number, state=state.FAIL)  # of a search that was interrupted
        waiting = study.get_trials(deepcopy=False, states=(state.WAITING,))
        may = all(_holds(self.entry.search[path], value) for path, value in own.items())
        done = len(self.finished())
        if may and not done and not waiting:
            study.enqueue_trial(own)
        self._write()
        for number in range(done, trials):
            self._one(number)
            self._write()

    def _one(self, number: int) -> None:
        study, entry = self.study, self.entry
        study.sampler = self.optuna.samplers.TPESampler(
            seed=(100_000 * self.job.recipe.seed + number) % 2**32, constant_liar=False
        )
        ranges = sorted(entry.search.items())
        trial = study.ask({path: _distribution(self.optuna, each) for path, each in ranges})
        task = f"tune/{self.data.target.name}/{entry.label}/{number}"
        self.job.run.on_task(task, "started")
        data = dataclasses.replace(self.data, name=f"{self.job.recipe.name}/{task}")
        try:
            score = _fit_and_score(data, entry, trial.params)
        except WeatherppError as error:
            trial.set_user_attr("fault", str(error))
            study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, score)
        self.job.run.on_task(task, "done")

    def finished(self) -> list[Trial]:
        """Trials with a score or a fault, in order."""
        state = self.optuna.trial.TrialState
        out = []
        for trial in self.study.get_trials(deepcopy=False, states=(state.COMPLETE, state.FAIL)):
            fault = trial.user_attrs.get("fault", "")
            if trial.state == state.COMPLETE or fault:
                out.append(Trial(dict(trial.params), trial.value, fault))
        return out

    def _write(self) -> None:
        stream, names = io.StringIO(), sorted(self.entry.search)
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["trial", "score", *names, "fault"])
        for number, trial in enumerate(self.finished()):
            score = "" if trial.score is None else repr(trial.score)
            values = [trial.values[name] for name in names]
            writer.writerow([number, score, *values, trial.fault])
        write_whole(self.table, stream.getvalue())


def _fit_and_score(data: FitData, entry: MethodEntry, values: Mapping[str, Any]) -> float:
    settings = with_values(entry.settings, values)
    method = method_class(entry.method)(data.target, settings).fit(data)
    if method.needs_recent and data.truth is not None:
        method.recent = Recent.of_pairs(data.forecast, data.truth, data.target)
    score = validation_score(method, data, entry.job)
    if not math.isfinite(score):
        raise WeatherppError(f"the score is {score}")
    return score

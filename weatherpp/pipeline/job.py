"""A recipe at work in a run folder: its archive, fits and predictions as resumable tasks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

import weatherpp
from weatherpp import speedy, twin
from weatherpp.data.archive import Archive, content_hash, sealed_hash
from weatherpp.data.fields import choose, select, subsample
from weatherpp.data.matching import matched_times, truth_for
from weatherpp.errors import ConfigError, InputError, telling
from weatherpp.files import Digest, file_digest, file_state, write_whole
from weatherpp.methods.base import FitData, Method, load_model, method_class
from weatherpp.methods.neural.tracking import check_tracking
from weatherpp.methods.recent import Recent
from weatherpp.pipeline.coupling import check_members, with_members
from weatherpp.pipeline.leads import leader, learnable
from weatherpp.pipeline.plan import Fold, last_years, plan_folds
from weatherpp.pipeline.products import product, write_product
from weatherpp.pipeline.progress import Terminal
from weatherpp.pipeline.stages import RunFolder
from weatherpp.recipe import (
    CatalogSource,
    MethodEntry,
    Recipe,
    SpeedySource,
    Target,
    TwinSource,
)
from weatherpp.speedy import SpeedyConfig
from weatherpp.strict import digest, validate
from weatherpp.twin import TwinConfig
from weatherpp.verify.regions import regions


@dataclass
class Job:
    """A recipe at work in a run folder."""

    recipe: Recipe
    text: str
    run: RunFolder
    terminal: Terminal
    cache: dict[str, Any] = field(default_factory=dict)
    trusted: bool = False
    scheduler: str | None = None

    def ingest(self) -> str:
        """Make the archive; returns its hash."""
        path = self.archive_path
        source = self.recipe.source
        if not isinstance(source, CatalogSource):
            return self._embedded(source)
        from weatherpp.data.catalog import load_entry
        from weatherpp.data.ingest import GROUPS, ingest

        entry = load_entry(source.catalog)
        root = source.root or None  # text, as it may be a URL

        def work() -> None:
            ingest(
                entry,
                path,
                root,
                self.terminal.update,
                overwrite=True,
                scheduler=self.scheduler,
                digests=digests,
            )

        entry.show_downloads(self.terminal.update, root)
        paths = [path for group in GROUPS for path in entry.paths(group, root)]
        digests = self._digests(paths)
        return self.run.task(
            "ingest/archive",
            [entry],
            [digest([path.name, digests[str(path)].sha256]) for path in paths],
            [path],
            work,
            resumable=True,
            replaces=True,
            content=content_hash,
            made=sealed_hash,
        )

    def _embedded(self, source: TwinSource | SpeedySource) -> str:
        """Make the archive with one of the embedded atmospheres; returns its hash."""
        path, seed = self.archive_path, self.recipe.seed
        config: TwinConfig | SpeedyConfig
        if isinstance(source, TwinSource):
            values = {"seed": seed, "device": self.recipe.device, **source.twin}
            config = validate(TwinConfig, values, "source.twin")
        else:
            config = validate(SpeedyConfig, {"seed": seed, **source.speedy}, "source.speedy")

        def work() -> None:
            if isinstance(config, TwinConfig):
                twin.generate(path, config, self.terminal.update)
            else:
                speedy.generate(path, config, self.terminal.update)

        return self.run.task(
            "ingest/archive",
            [config],
            [],
            [path],
            work,
            resumable=True,
            content=content_hash,
            made=sealed_hash,
        )

    def _digests(self, paths: Sequence[Path]) -> dict[str, Digest]:
        """Hash of each input file by its path; one that has not changed since is not read."""
        note = self.run.path / "stages" / "inputs.json"
        try:
            known = dict(json.loads(note.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            known = {}
        found: dict[str, Digest] = {}
        for path in paths:
            state, before = file_state(path), known.get(str(path))
            if isinstance(before, dict) and before.get("state") == state and "hash" in before:
                found[str(path)] = Digest(state, str(before["hash"]))
            else:
                found[str(path)] = Digest(state, file_digest(path))
        noted = {path: {"state": each.state, "hash": each.sha256} for path, each in found.items()}
        write_whole(note, json.dumps(noted) + "\n")
        return found

    @property
    def archive_path(self) -> Path:
        """Where the run's archive is."""
        return self.run.path / "archive.zarr"

    def trust(self, archive_hash: str) -> None:
        """Make sure, before the first work on it, that the archive is still what was ingested.

        Markers compare sizes and times of change alone, which a flipped bit does not alter.

        Raises
        ------
        InputError
            It is not.
        """
        if not self.trusted and digest(content_hash(self.archive_path)) != archive_hash:
            raise InputError(
                f"{self.archive_path}: its content has changed since it was made, the disk may be "
                "damaged; make it again with --force ingest"
            )
        self.trusted = True

    def folds(self, archive: Archive, target: Target, job: str) -> Sequence[Fold]:
        """Folds for a target; spread jobs need no analysis."""
        times = pd.DatetimeIndex(archive.forecast["time"].to_numpy())
        with_truth = times
        if archive.analysis is not None:
            with_truth = matched_times(archive.analysis, target, times)
        return plan_folds(times, with_truth, self.recipe.split, target)

    def methods(self) -> None:
        """Check every method's settings before any work is done.

        Raises
        ------
        ConfigError
            An unknown method or setting, or a package for tracking is not there.
        """
        for entry in self.recipe.methods:
            for target in self.recipe.targets:
                with telling(f"method {entry.label}"):
                    method_class(entry.method)(target, entry.settings)
        if self.recipe.tracking is not None:
            check_tracking(self.recipe.tracking)

    def check(self, archive: Archive) -> None:
        """Make sure, before the first fit, that the archive has what the recipe asks for.

        Raises
        ------
        InputError, ConfigError
            A target, lead time or number of members it does not have, a region without a point.
        """
        for target in self.recipe.targets:
            field = select(archive.forecast, target.variable, target.level, target.lead)
            regions(field, self.recipe.verify.regions)
        numbers = [int(number) for number in archive.forecast["number"].values]
        for entry in self.recipe.methods:
            with telling(f"method {entry.label}"):
                self.full_members(entry, numbers)
        check_members(self.recipe, archive)

    def full_members(self, entry: MethodEntry, numbers: list[int]) -> list[int]:
        """Which members a spread job tells the spread of; see ``MethodEntry.full``.

        Raises
        ------
        InputError
            There are not the members that the recipe asks for, or too few others.
        """
        chosen = choose(numbers, entry.members, self.seed(entry))
        if entry.full == "all":
            return numbers
        others = [number for number in numbers if number not in chosen]
        if len(others) < 2:
            raise InputError(
                f"full: others needs two members besides the {len(chosen)} given; "
                f"the archive has {len(numbers)}"
            )
        return others

    def full_ensemble(
        self, archive: Archive, target: Target, entry: MethodEntry, times: pd.DatetimeIndex
    ) -> xr.DataArray:
        """Target field of the members of :meth:`full_members`, (time, number, grid...); lazy."""
        full = select(archive.forecast.sel(time=times), target.variable, target.level, target.lead)
        numbers = [int(number) for number in full["number"].to_numpy()]
        return full.sel(number=self.full_members(entry, numbers))

    def seed(self, entry: MethodEntry) -> int:
        """Seed of a method: its own, or the recipe's."""
        return self.recipe.seed if entry.seed is None else entry.seed

    def model_folder(self, target: Target, entry: MethodEntry, fold: Fold) -> Path:
        """Folder of one fitted model."""
        folder = self.run.path / "models" / target.name / entry.label
        return folder if fold.name == "all" else folder / fold.name

    def fit(self, archive_hash: str) -> dict[tuple[str, str, str], str]:
        """Fit every method on every target and fold; returns hashes of the model folders."""
        archive = Archive.open(self.archive_path)
        self.check(archive)
        hashes: dict[tuple[str, str, str], str] = {}
        for target in self.recipe.targets:
            for entry in self.recipe.methods:
                for fold in self.folds(archive, target, entry.job):
                    folder = self.model_folder(target, entry, fold)
                    name = "/".join(folder.relative_to(self.run.path / "models").parts)
                    settings: list[Any] = [self.recipe.seed, self.recipe.device, entry, target]
                    settings += [self.recipe.split, fold.name]
                    first = leader(self.recipe, entry, target)
                    fitted = hashes.get((first.name, entry.label, fold.name))
                    inputs = [archive_hash] if fitted is None else [archive_hash, fitted]

                    def work(
                        target: Target = target,
                        entry: MethodEntry = entry,
                        fold: Fold = fold,
                        folder: Path = folder,
                        first: Target | None = None if fitted is None else first,
                    ) -> None:
                        self.trust(archive_hash)
                        with telling(f"method {entry.label}, target {target.name}"):
                            self._fit_one(archive, target, entry, fold, folder, first)

                    hashes[target.name, entry.label, fold.name] = self.run.task(
                        f"fit/{name}", settings, inputs, [folder], work, resumable=True
                    )
        self.cache.clear()
        return hashes

    def _fit_one(
        self,
        archive: Archive,
        target: Target,
        entry: MethodEntry,
        fold: Fold,
        folder: Path,
        first: Target | None,
    ) -> None:
        """Fit one model, or take it from the fit of the target ``first``, which serves both."""
        method = method_class(entry.method)(target, entry.settings)
        seed = self.seed(entry)
        fold = last_years(fold, entry.years)
        times = fold.train.union(fold.valid)
        chosen = subsample(archive.forecast, entry.members, self.seed(entry))
        meta = {
            "members": entry.members.model_dump(mode="json"),
            "numbers": [int(number) for number in chosen["number"].to_numpy()],
            "seed": seed,
            "source": {key: archive.attrs.get(key) for key in ("title", "licence")},
            **{
                name: [str(dates.min()), str(dates.max()), len(dates)]
                for name, dates in (("train", fold.train), ("valid", fold.valid))
            },
            "weatherpp": weatherpp.__version__,
        }
        keep = folder / ".training"
        if first is not None:
            method = load_model(self.model_folder(first, entry, fold)).at(target)
        elif len(fold.train):
            data = self.fit_data(archive, target, method, chosen.sel(time=times), fold, entry)
            name = "/".join((self.recipe.name, *folder.relative_to(self.run.path / "models").parts))
            method.fit(replace(data, keep=keep, seed=seed, name=name))
        elif entry.method != "raw":
            raise ConfigError(f"method {entry.label} must be fitted, but the recipe has no split")
        shutil.rmtree(keep, ignore_errors=True)
        method.save(folder, meta)

    def fit_data(
        self,
        archive: Archive,
        target: Target,
        method: Method,
        chosen: xr.Dataset,
        fold: Fold,
        entry: MethodEntry,
    ) -> FitData:
        """What a method may learn from on the dates of ``chosen``, with the recipe's seed.

        Raises
        ------
        InputError
            There is no analysis, and the method needs one.
        """
        times = pd.DatetimeIndex(chosen["time"].to_numpy())
        truth = None
        if archive.analysis is not None:
            truth = truth_for(archive.analysis, target, times, archive.forecast)
        elif method.needs_truth:
            raise InputError(
                f"{self.archive_path}: no analysis, which method {method.name} learns from"
            )
        full = self.full_ensemble(archive, target, entry, times)

        def truth_at(other: Target) -> xr.DataArray:
            if archive.analysis is None:
                raise InputError(f"{self.archive_path}: no analysis of {other.name}")
            return learnable(archive.analysis, archive.forecast, fold, other)

        return FitData(
            forecast=chosen,
            truth=truth,
            full=full,
            static=archive.static,
            target=target,
            train=fold.train,
            valid=fold.valid,
            seed=self.recipe.seed,
            device=self.recipe.device,
            progress=self.terminal.update,
            cache=self.cache,
            tracking=self.recipe.tracking,
            truth_at=truth_at,
        )

    def postprocess(
        self, archive_hash: str, models: dict[tuple[str, str, str], str]
    ) -> dict[str, str]:
        """Predict with every model; returns hashes of the product files by relative path."""
        archive = Archive.open(self.archive_path)
        hashes: dict[str, str] = {}
        for target in self.recipe.targets:
            for entry in self.recipe.methods:
                folds = self.folds(archive, target, entry.job)
                for verified in (True, False):
                    chosen = [fold for fold in folds if fold.verified is verified]
                    if not chosen:
                        continue
                    kind = "predictions" if verified else "applied"
                    path = self.run.path / kind / target.name / f"{entry.label}.nc"
                    inputs = [models[target.name, entry.label, fold.name] for fold in chosen]
                    settings: list[Any] = [self.recipe.products, entry, target, self.recipe.split]

                    def work(
                        path: Path = path,
                        target: Target = target,
                        entry: MethodEntry = entry,
                        chosen: Sequence[Fold] = tuple(chosen),
                    ) -> None:
                        self.trust(archive_hash)
                        with telling(f"method {entry.label}, target {target.name}"):
                            self._predict(archive, target, entry, chosen, path)

                    name = f"postprocess/{kind}/{target.name}/{entry.label}"
                    hashes[f"{kind}/{target.name}/{entry.label}"] = self.run.task(
                        name, settings, [archive_hash, *inputs], [path], work
                    )
        return hashes

    def _predict(
        self,
        archive: Archive,
        target: Target,
        entry: MethodEntry,
        folds: Sequence[Fold],
        path: Path,
    ) -> None:
        forecast = subsample(archive.forecast, entry.members, self.seed(entry))
        recent = None
        if method_class(entry.method).needs_recent:
            recent = Recent.of(archive, forecast, target)  # the same for all folds
        parts = []
        for fold in folds:
            method = load_model(self.model_folder(target, entry, fold))
            method.recent = recent
            raw = forecast.sel(time=fold.predict)
            part = method.predict(raw)
            parts.append(with_members(part, raw, archive, target, fold.train, self.recipe))
        dist = xr.concat(parts, dim="time").sortby("time") if len(parts) > 1 else parts[0]
        dist.attrs = {**parts[0].attrs, "method": entry.label}
        write_product(product(dist, self.recipe.products.quantiles), path)

"""Case studies in the report: sections with maps, lines, tracks and scores; terminal lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp import distribution
from weatherpp.data.archive import Archive
from weatherpp.data.fields import select, subsample
from weatherpp.data.matching import truth_for
from weatherpp.events.area import cut, nearest, widened
from weatherpp.events.boxes import ALL_CASES, dates_words
from weatherpp.events.case import Case, Threshold
from weatherpp.events.load import load_cases
from weatherpp.pipeline.case_views import Shown, View, dated, predictions, views
from weatherpp.pipeline.cases import MARGIN, TRUTH
from weatherpp.recipe import MethodEntry, Target
from weatherpp.report.content import Figure, Section
from weatherpp.verify.table import own_estimator

if TYPE_CHECKING:
    from weatherpp.pipeline.job import Job

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


def case_lines(folder: Path) -> list[str]:
    """What the cases gave, for the terminal: gains in the boxes, and what was left out."""
    gains = pd.read_parquet(folder / "gains.parquet")
    lines = [
        f"{row['region']}, {row['target']}: CRPS of {row['method']} {_gain_words(row)}"
        for row in _last_of_each(gains)
    ]
    return lines + [f"note: {line}" for line in _notes(folder)["left_out"]]


def _notes(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "notes.json").read_text(encoding="utf-8"))
    return found


def _last_of_each(gains: pd.DataFrame) -> list[dict[Any, Any]]:
    """Rows of the last method in each box, against plainly scored references."""
    plain = gains[gains["reference_estimator"] != "fair"]
    plain = plain[plain["method"] == (plain["method"].iloc[-1] if len(plain) else "")]
    return plain.drop_duplicates(["region", "target", "reference"]).to_dict("records")


def _gain_words(row: dict[Any, Any]) -> str:
    size = f"{100 * abs(row['gain']):.1f} %"
    side = "below" if row["gain"] >= 0 else "above"
    if np.isnan(row["low"]):
        return f"{size} {side} {row['reference']} ({dates_words(int(row['dates']))})"
    limits = f"{100 * row['low']:.1f} to {100 * row['high']:.1f} %"
    return f"{size} {side} {row['reference']} (gain {limits}, {int(row['dates'])} dates)"


def case_sections(job: Job) -> list[Section]:
    """A section for each case of a run, and before them one for all together."""
    folder = job.run.path / "events"
    if job.recipe.cases is None or not folder.is_dir():
        return []
    archive = Archive.open(job.archive_path)
    scores, gains, tracks = (
        pd.read_parquet(folder / f"{name}.parquet") for name in ("scores", "gains", "tracks")
    )
    notes = _notes(folder)
    cases = load_cases(folder / "cases.yaml").cases
    sections = _joint_sections(job, scores, gains, notes["left_out"])
    for place, case in enumerate(cases):
        job.terminal.update(f"case {case.name}", place, len(cases))
        page = _Page(job, archive, case, tracks[tracks["case"] == case.name])
        figures = page.figures(scores)
        words = _case_words(case, notes["cases"][case.name], gains)
        sections.append(Section(f"Case: {case.heading}", words, figures))
    return sections


def _case_words(case: Case, notes: dict[str, Any], gains: pd.DataFrame) -> list[str]:
    words = [" ".join(case.story.split())] if case.story else []
    span = f"{case.start:%Y-%m-%d %H:%M} to {case.end:%Y-%m-%d %H:%M} UTC"
    words.append(
        f"Box {case.box}, valid times {span}, point {case.place}."
        + (f" Source: {' '.join(case.source.split())}" if case.source else "")
    )
    words += [f"{name} at the point: {text}" for name, text in notes["rarity"].items()]
    rows = _last_of_each(gains[gains["region"] == case.name])
    if rows:
        told = "; ".join(f"{row['target']}: {_gain_words(row)}" for row in rows)
        words.append(f"CRPS of {rows[0]['method']} in the box: {told}.")
    if notes["lost"]:
        words.append(f"Tracks that end early or do not begin: {'; '.join(notes['lost'])}.")
    return words


def _joint_sections(
    job: Job, scores: pd.DataFrame, gains: pd.DataFrame, left_out: list[str]
) -> list[Section]:
    """All cases together: scores by lead time, and gains."""
    from weatherpp.report.figures import gain_bars

    figures: list[Figure] = []
    joint = scores[scores["region"] == ALL_CASES]
    labels = [entry.label for entry in Shown.of(job.recipe).entries]
    for variable, part in _by_field(job, joint):
        figures += _lead_lines(part, labels, f"{variable}: CRPS in the boxes of all cases")
    against = gains[(gains["region"] == ALL_CASES) & gains["method"].isin(labels)]
    if len(against):
        figures.append(gain_bars(against))
    words = ["Scores in the box of each case, on its dates, averaged over all cases."]
    if len(joint):
        words.append(f"Rests on {dates_words(int(joint['dates'].max()))} for each lead time.")
    words += [f"Left out: {line}." for line in left_out]
    return [Section("All cases together", words, figures)] if figures or left_out else []


def _by_field(job: Job, scores: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Scores by variable and level, whose targets are its lead times."""
    fields = {t.name: f"{t.variable}{t.level or ''}" for t in job.recipe.targets}
    names = scores["target"].map(fields)
    return [(str(name), part) for name, part in scores.groupby(names, sort=False)]


def _lead_lines(scores: pd.DataFrame, labels: list[str], title: str) -> list[Figure]:
    """CRPS by lead time of some methods; members are scored plainly."""
    from weatherpp.report.series import score_over_leads

    crps = scores[(scores["score"] == "crps") & scores["method"].isin(labels)]
    parts = []
    for _, part in crps.groupby("method", sort=False):
        by_name = {str(name): rows for name, rows in part.groupby("estimator", sort=False)}
        series = {name: rows["value"] for name, rows in by_name.items()}
        parts.append(by_name[own_estimator(series, "plain")])
    if not parts:
        return []
    table = pd.concat(parts, ignore_index=True)
    figure = score_over_leads(table, title=title, name="CRPS")
    dates = ", ".join(
        f"{hours:g} h {dates_words(int(rows['dates'].max()))}"
        for hours, rows in table.groupby("step_hours")
    )
    return [Figure(figure.png, figure.alt, f"{figure.caption} {dates}.", figure.chart)]


class _Page:
    """Figures of one case."""

    def __init__(self, job: Job, archive: Archive, case: Case, tracks: pd.DataFrame) -> None:
        self.job, self.archive, self.case, self.tracks = job, archive, case, tracks
        self.shown = Shown.of(job.recipe)
        self.area = widened(case.box, MARGIN)

    def figures(self, scores: pd.DataFrame) -> list[Figure]:
        """All of them, in the order of the page."""
        its_views, _ = views(self.job, self.archive, self.case)
        found: list[Figure] = []
        for view in its_views:
            found += self._maps(view)
            found += self._probabilities(view)
            found += self._extremes(view)
            found += self._lines(view)
        found += self._track()
        own = scores[scores["region"] == self.case.name]
        labels = [entry.label for entry in self.shown.entries]
        for name, part in _by_field(self.job, own):
            found += _lead_lines(part, labels, f"{name}: CRPS in the box")
        return found

    def _dist(self, view: View, target: Target, entry: MethodEntry) -> xr.Dataset:
        return predictions(self.job, target, entry.label, [view.start])

    def _cut(self, field: xr.DataArray, view: View, target: Target) -> xr.DataArray:
        """A field of the date shown, around the box."""
        if "time" in field.dims:
            field = field.sel(time=view.start)
        return dated(cut(field, self.area), view.start.to_datetime64(), target, self.archive)

    def _truth(self, view: View, target: Target) -> xr.DataArray | None:
        if self.archive.analysis is None:
            return None
        times = pd.DatetimeIndex([view.start])
        return self._cut(truth_for(self.archive.analysis, target, times).load(), view, target)

    def _maps(self, view: View) -> list[Figure]:
        from weatherpp.report.maps import case_maps, field_maps

        raw, best = self.shown.raw, self.shown.best
        one, two = (self._dist(view, view.main, entry) for entry in (raw, best))
        means, spreads = (
            [self._cut(make(dist), view, view.main) for dist in (one, two)]
            for make in (distribution.mean, distribution.spread)
        )
        truth = self._truth(view, view.main)
        if truth is None:
            labels = list(dict.fromkeys((raw.label, best.label)))
            n = len(labels)
            return [
                field_maps(means[:n], [f"Mean, {label}" for label in labels]),
                field_maps(spreads[:n], [f"Spread, {label}" for label in labels], kind="spread"),
            ]
        figure = case_maps(
            truth,
            *means,
            *spreads,
            raw_label=raw.label,
            post_label=best.label,
            caption=f"{view.field.name}, the forecast valid nearest the peak.",
        )
        return [figure, *self._by_lead(view)]

    def _by_lead(self, view: View) -> list[Figure]:
        """Errors of raw and best mean through the lead times of the forecast shown."""
        from weatherpp.report.maps import field_maps

        there = [t for t in view.targets if view.start in view.dates[t.name]]
        if len(there) < 2:
            return []
        fields, titles = [], []
        for entry in (self.shown.raw, self.shown.best):
            for target in there:
                truth = self._truth(view, target)
                assert truth is not None
                mean = distribution.mean(self._dist(view, target, entry))
                field = self._cut(mean, view, target)
                name = f"error of {field.attrs.get('long_name', view.field.name)}"
                error = field.copy(data=field.values - truth.values)
                fields.append(error.assign_attrs(long_name=name))
                titles.append(f"{entry.label}, {target.step}")
        # one title for all lead times: none of them has its own valid time there
        fields = [f.drop_vars(["time", "step", "valid_time"]) for f in fields]
        caption = f"Error of the mean of {view.field.name} through the forecast from "
        return [
            field_maps(
                fields, titles, kind="diverging", columns=len(there),
                caption=f"{caption}{view.start:%Y-%m-%d %H:%M} UTC.",
            )
        ]  # fmt: skip

    def _probabilities(self, view: View) -> list[Figure]:
        from weatherpp.report.maps import probability_maps

        figures = []
        truth = self._truth(view, view.main)
        for threshold in self.case.thresholds:
            if threshold.name != view.field.name:
                continue
            fields = [
                self._cut(_chance(self._dist(view, view.main, entry), threshold), view, view.main)
                for entry in self.shown.entries
            ]
            units = str(distribution.pattern(self._dist(view, view.main, self.shown.raw)).units)
            side = "below" if threshold.above is None else "above"
            observed = None
            if truth is not None:
                observed = truth < threshold.limit if side == "below" else truth > threshold.limit
            figures.append(
                probability_maps(
                    fields,
                    [entry.label for entry in self.shown.entries],
                    event=f"{threshold.name} {side} {threshold.limit:g} {units}",
                    observed=observed,
                )
            )
        return figures

    def _extremes(self, view: View) -> list[Figure]:
        from weatherpp.report.maps import field_maps

        path = self.job.run.path / "events" / "extremes" / f"{view.name}.nc"
        if not path.is_file():
            return []
        with xr.open_dataset(path, engine="netcdf4") as ds:
            found = ds.load()
        time = view.start.to_datetime64()
        fields = [dated(found[name], time, view.main, self.archive) for name in ("efi", "sot")]
        caption = (
            f"How {self.shown.raw.label} of {view.field.name} stands out of the climate of the "
            f"model ({found.attrs['dates']} training dates, {found.attrs['members']} members). "
            "Extreme forecast index: 1 or -1 if all members are beyond all of it. Shift of tails: "
            "above 0 if a tenth of the members is beyond its most extreme hundredth."
        )
        titles = ["Extreme forecast index", str(found["sot"].attrs["long_name"]).capitalize()]
        return [
            field_maps(
                fields, titles, kind="diverging", shared_scale=False, columns=2, caption=caption
            )
        ]

    def _lines(self, view: View) -> list[Figure]:
        """Plume and meteogram at the case's point, of the forecast shown."""
        from weatherpp.report.series import meteogram, plume

        boxes = {e.label: self._quantiles_at_point(view, e) for e in self.shown.entries}
        forecasts = {
            e.label: self._raw_at_point(view, e) if e.method == "raw" else boxes[e.label]
            for e in self.shown.entries
        }
        truth = self._truth_at_point(view)
        title = f"{view.field.name} at the grid point nearest {self.case.place}"
        truths = None if truth is None else {view.field.name: truth}
        figures = [meteogram({view.field.name: boxes}, truths, title=title)]
        # through a single lead time there is no line
        long = {label: each for label, each in forecasts.items() if each.sizes["step"] > 1}
        return [plume(long, truth, title=title), *figures] if long else figures

    def _raw_at_point(self, view: View, entry: MethodEntry) -> xr.DataArray:
        """Raw members at all lead times of the archive, (step, number)."""
        chosen = subsample(self.archive.forecast, entry.members, self.job.seed(entry))
        field = select(chosen, view.field.variable, view.field.level).sel(time=view.start)
        out = field.isel(nearest(field, self.case.place)).load()
        return out.dropna("step", how="all").drop_vars("valid_time", errors="ignore")

    def _quantiles_at_point(self, view: View, entry: MethodEntry) -> xr.DataArray:
        """Quantiles of a method at its lead times, (step, quantile)."""
        parts, leads = [], []
        for target in view.targets:
            if view.start not in view.dates[target.name]:
                continue
            dist = self._dist(view, target, entry)
            at = dist.isel(nearest(dist, self.case.place))
            parts.append(distribution.quantile(at.isel(time=0), LEVELS))
            leads.append(target.lead.to_timedelta64())
        steps = pd.Index(pd.TimedeltaIndex(leads), name="step")
        # quantiles of members lose the time they are of; those of families keep it
        bare = [
            each.reset_coords([c for c in each.coords if c != "quantile"], drop=True)
            for each in parts
        ]
        attrs = dict(parts[0].attrs)
        out = xr.concat(bare, steps).assign_attrs(attrs)
        return out.assign_coords(time=view.start.to_datetime64())

    def _truth_at_point(self, view: View) -> xr.DataArray | None:
        """Analysis at the valid times of the forecast shown, (valid_time,)."""
        if self.archive.analysis is None:
            return None
        field = select(self.archive.analysis, view.field.variable, view.field.level)
        valid = view.start + pd.TimedeltaIndex(self.archive.forecast["step"].values)
        there = valid[valid.isin(pd.DatetimeIndex(field["valid_time"].values))]
        return field.isel(nearest(field, self.case.place)).sel(valid_time=there).load()

    def _track(self) -> list[Figure]:
        from weatherpp.report.series import track_map

        rule = self.case.track
        forecasts = self.tracks[self.tracks["label"] != TRUTH]
        truth = self.tracks[self.tracks["label"] == TRUTH]
        # a place at a single time is no track; the words tell it
        if rule is None or forecasts["time"].nunique() < 2 or len(truth) < 2:
            return []
        what = "lowest" if rule.extreme == "min" else "highest"
        figure = track_map(
            forecasts.drop(columns="case"),
            truth.drop(columns="case"),
            title=f"Track of the {what} {rule.name}",
            area=(self.area.north, self.area.south, self.area.west, self.area.east),
            value_label=f"{what} {rule.name}",
        )
        caption = (
            f"{figure.caption} Followed: the {what} {rule.name} within {rule.radius:g} km of the "
            "analysis' place."
        )
        return [Figure(figure.png, figure.alt, caption, figure.chart)]


def _chance(dist: xr.Dataset, threshold: Threshold) -> xr.DataArray:
    """Probability of the threshold's event, 0 to 1."""
    above = distribution.exceedance(dist, threshold.limit)
    return above if threshold.above is not None else 1 - above

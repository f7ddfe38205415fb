"""Figures of one case: maps, probabilities, extremes, lines, tracks, scores by lead time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd
import xarray as xr

from weatherpp import distribution
from weatherpp.data.archive import Archive
from weatherpp.data.fields import select, subsample
from weatherpp.data.matching import truth_for
from weatherpp.errors import InputError
from weatherpp.events.area import cut, nearest, widened
from weatherpp.events.case import Case, Point, Threshold
from weatherpp.pipeline.case_views import Shown, View, dated, predictions, views
from weatherpp.pipeline.cases import MARGIN, TRUTH
from weatherpp.recipe import MethodEntry, Target
from weatherpp.report.content import Figure
from weatherpp.report.labels import headline, plain_name, sentence_case, units_text, with_units
from weatherpp.verify.aggregate import FEWEST_DATES
from weatherpp.verify.table import own_estimator

if TYPE_CHECKING:
    from weatherpp.pipeline.job import Job

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


def dates_sentence(dates: Iterable[Any]) -> str:
    """On how many dates scores by lead time rest, and whether these are too few to judge by."""
    counts = sorted({int(count) for count in dates})
    span = " to ".join(map(str, counts[:1] + counts[1:][-1:]))
    text = f"On {span} date{'' if counts == [1] else 's'} for each lead time"
    if counts[0] < FEWEST_DATES:
        text += f"; an interval takes {FEWEST_DATES}"
    return f"{text}."


def by_field(job: Job, scores: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Scores by variable and level, whose targets are its lead times."""
    fields = {t.name: f"{t.variable}{t.level or ''}" for t in job.recipe.targets}
    names = scores["target"].map(fields)
    return [(str(name), part) for name, part in scores.groupby(names, sort=False)]


def lead_lines(
    scores: pd.DataFrame, labels: list[str], title: str, colours: Mapping[str, str]
) -> list[Figure]:
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
    figure = score_over_leads(table, title=title, name="CRPS", colours=colours)
    return [replace(figure, caption=f"{figure.caption} {dates_sentence(table['dates'])}")]


class CasePage:
    """Figures of one case; ``left_out`` has a line for each that cannot be drawn."""

    def __init__(
        self,
        job: Job,
        archive: Archive,
        case: Case,
        tracks: pd.DataFrame,
        colours: Mapping[str, str],
    ) -> None:
        self.job, self.archive, self.case, self.tracks = job, archive, case, tracks
        self.colours = colours
        self.shown = Shown.of(job.recipe)
        self.area = widened(case.box, MARGIN)
        self.source = str(archive.attrs.get("source", ""))
        self.left_out: list[str] = []

    def figures(self, scores: pd.DataFrame) -> list[Figure]:
        """All of them, in the order of the page."""
        its_views, _ = views(self.job, self.archive, self.case)
        own = scores[scores["region"] == self.case.name]
        labels = [entry.label for entry in self.shown.entries]
        parts: list[tuple[str, Callable[[], list[Figure]]]] = []
        for view in its_views:
            name = view.field.name
            parts += [
                (f"maps of {name}", partial(self._maps, view)),
                (f"maps of the errors of {name} by lead time", partial(self._by_lead, view)),
                (f"probabilities of {name}", partial(self._probabilities, view)),
                (f"extremes of {name}", partial(self._extremes, view)),
                (f"{name} at the point", partial(self._lines, view)),
            ]
        parts.append(("tracks", self._track))
        for name, part in by_field(self.job, own):
            title = f"{name}: CRPS in the box"
            parts.append((title, partial(lead_lines, part, labels, title, self.colours)))
        return [figure for what, draw in parts for figure in self._drawn(what, draw)]

    def _drawn(self, what: str, draw: Callable[[], list[Figure]]) -> list[Figure]:
        """Figures, or none and a line, since one that fails must not take the others with it."""
        try:
            return draw()
        except (InputError, OSError) as error:
            self.left_out.append(f"case {self.case.name}, {what}: {' '.join(str(error).split())}")
            return []

    @property
    def heading(self) -> str:
        """Of its section: that of the case, found ones with real exponents and whole degrees."""
        case = self.case
        first = case.variables[0] if case.variables else None
        if case.kind != "found by rule" or first is None:
            return case.heading
        units = self._units(first.variable, first.level)
        rounded = Point(latitude=round(case.place.latitude), longitude=round(case.place.longitude))
        title = case.heading.replace(str(case.place), str(rounded).replace("° ", "°\u00a0"))
        return title.replace(f" {units} ", f" {units_text(units)} ") if units else title

    def _units(self, variable: str, level: int | None) -> str:
        return str(select(self.archive.forecast, variable, level).attrs.get("units", ""))

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
        return [figure]

    def _by_lead(self, view: View) -> list[Figure]:
        """Errors of raw and best mean through the lead times of the forecast shown."""
        from weatherpp.report.maps import field_maps

        there = [t for t in view.targets if view.start in view.dates[t.name]]
        if len(there) < 2 or self.archive.analysis is None:
            return []
        fields, titles = [], []
        for entry in (self.shown.raw, self.shown.best):
            for target in there:
                truth = self._truth(view, target)
                assert truth is not None
                mean = distribution.mean(self._dist(view, target, entry))
                field = self._cut(mean, view, target)
                name = f"error of the mean of {field.attrs.get('long_name', view.field.name)}"
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
            raw = distribution.mean(self._dist(view, view.main, self.shown.raw))
            units = units_text(str(raw.attrs.get("units", "")))
            side = "below" if threshold.above is None else "above"
            observed = None
            if truth is not None:
                observed = truth < threshold.limit if side == "below" else truth > threshold.limit
            figures.append(
                probability_maps(
                    fields,
                    [entry.label for entry in self.shown.entries],
                    event=f"{plain_name(raw)} {side} {threshold.limit:g} {units}".strip(),
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
        titles = [sentence_case(str(field.attrs["long_name"])) for field in fields]
        mean = distribution.mean(self._dist(view, view.main, self.shown.raw))
        return [
            field_maps(
                fields, titles, kind="diverging", shared_scale=False, columns=2, caption=caption,
                heading=f"Extremes of {plain_name(mean)}, {self.shown.raw.label}",
            )
        ]  # fmt: skip

    def _lines(self, view: View) -> list[Figure]:
        """Plume and meteogram at the case's point, of the forecast shown."""
        from weatherpp.report.series import meteogram, plume

        boxes = {e.label: self._quantiles_at_point(view, e) for e in self.shown.entries}
        forecasts = {
            e.label: self._raw_at_point(view, e) if e.method == "raw" else boxes[e.label]
            for e in self.shown.entries
        }
        truth = self._truth_at_point(view)
        title = f"{view.field.name} at the point nearest {self.case.place}"
        truths = None if truth is None else {view.field.name: truth}
        figures = [meteogram({view.field.name: boxes}, truths, title=title, colours=self.colours)]
        # through a single lead time there is no line
        long = {label: each for label, each in forecasts.items() if each.sizes["step"] > 1}
        if not long:
            return figures
        return [plume(long, truth, title=title, colours=self.colours), *figures]

    def _raw_at_point(self, view: View, entry: MethodEntry) -> xr.DataArray:
        """Raw members at all lead times of the archive, (step, number)."""
        chosen = subsample(self.archive.forecast, entry.members, self.job.seed(entry))
        field = select(chosen, view.field.variable, view.field.level).sel(time=view.start)
        out = field.isel(nearest(field, self.case.place)).load()
        # the title tells the place
        told = ["valid_time", "latitude", "longitude"]
        out = out.dropna("step", how="all").drop_vars(told, errors="ignore")
        return out.assign_attrs(source=self.source)

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
        attrs = {**parts[0].attrs, "source": self.source}
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
        if rule is None:
            return []
        # a place at a single time is no track
        times = forecasts.groupby("label", sort=False)["time"].nunique()
        forecasts = forecasts[forecasts["label"].isin(times.index[times > 1])]
        if forecasts.empty or len(truth) < 2:
            raise InputError("there are not two times with a position")
        what = "lowest" if rule.extreme == "min" else "highest"
        mark = xr.DataArray(attrs={"source": self.source})
        means = {f"{label} mean": colour for label, colour in self.colours.items()}
        figure = track_map(
            forecasts.drop(columns="case"),
            truth.drop(columns="case"),
            title=headline(mark, f"Track of the {what} {rule.name}"),
            value_label=with_units(
                sentence_case(f"{what} {rule.name}"), self._units(rule.variable, rule.level)
            ),
            colours={**means, **self.colours},
        )
        caption = (
            f"{figure.caption} Followed: the {what} {rule.name} within {rule.radius:g} km of the "
            "analysis' place."
        )
        return [replace(figure, caption=caption)]


def _chance(dist: xr.Dataset, threshold: Threshold) -> xr.DataArray:
    """Probability of the threshold's event, 0 to 1."""
    above = distribution.exceedance(dist, threshold.limit)
    return above if threshold.above is not None else 1 - above

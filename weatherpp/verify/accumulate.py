"""Score fields taken in a few dates at a time, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.verify.aggregate import NanPolicy, date_means, filled
from weatherpp.verify.weights import grid_weights

Key = tuple[str, str]  # score, estimator
BLOCK_BYTES = 16_000_000
"""Of a forecast in memory at once; one date always is."""


def date_blocks(*data: xr.Dataset | xr.DataArray | None) -> Iterator[slice]:
    """Successive slices of the dimension ``time`` of about :data:`BLOCK_BYTES` each."""
    there = [each for each in data if each is not None]
    dates = there[0].sizes["time"]
    one = sum(each.nbytes for each in there) / max(dates, 1)
    size = max(1, int(BLOCK_BYTES // max(one, 1)))
    return (slice(start, start + size) for start in range(0, dates, size))


class Accumulated:
    """Means over space by date and region, and sums over dates by point.

    Parameters
    ----------
    regions
        Which points lie in each; the first one must have values.
    nan_policy
        See :func:`weatherpp.verify.aggregate.per_date`. With ``omit`` all scores are taken over
        the same pairs, those that have every one of them.
    """

    def __init__(self, regions: Mapping[str, xr.DataArray], nan_policy: NanPolicy):
        self.regions, self.nan_policy = dict(regions), nan_policy
        self._weights: dict[str, xr.DataArray] = {}
        self._means: dict[str, dict[Key, list[pd.Series[float]]]] = {}
        self._pairs: dict[str, list[pd.Series[int]]] = {}
        self._sums: dict[Key, xr.DataArray] = {}
        self._counts: dict[Key, xr.DataArray] = {}

    def add(self, fields: Mapping[Key, xr.DataArray]) -> None:
        """Take in further dates; fields are in memory, (time, grid...)."""
        first = next(iter(fields.values()))
        if not self._weights:
            base = grid_weights(first)
            self._weights = {
                name: base * mask.astype(np.float64) for name, mask in self.regions.items()
            }
        if self.nan_policy == "omit":
            whole = xr.concat([field.notnull() for field in fields.values()], "score").all("score")
            fields = {key: field.where(whole) for key, field in fields.items()}
            first = next(iter(fields.values()))
        for name, weights in self._weights.items():
            means = self._means.setdefault(name, {})
            for key, field in fields.items():
                means.setdefault(key, []).append(date_means(field, weights, self.nan_policy))
            self._pairs.setdefault(name, []).append(_pairs(first, weights))
        for key, field in fields.items():
            there = field.notnull() if self.nan_policy == "omit" else xr.ones_like(field, bool)
            total = field.where(there, 0.0).sum("time", skipna=False, keep_attrs=True)
            self._sums[key] = self._sums[key] + total if key in self._sums else total
            count = there.sum("time")
            self._counts[key] = self._counts[key] + count if key in self._counts else count
            self._sums[key].attrs = field.attrs

    def by_date(self, region: str) -> tuple[dict[Key, pd.Series[float]], pd.Series[int]]:
        """Means over a region by date, dates without a valid point left out; points by date.

        Nothing for a region without any, unless it is the first.

        Raises
        ------
        InputError
            The first region has no valid point on any date.
        """
        found = {key: pd.concat(parts) for key, parts in self._means[region].items()}
        pairs = pd.concat(self._pairs[region])
        if region != next(iter(self.regions)) and all(s.isna().all() for s in found.values()):
            return {}, pairs.iloc[:0]
        series = {key: filled(values, self.nan_policy) for key, values in found.items()}
        return series, pairs.loc[next(iter(series.values())).index]

    def maps(self) -> dict[Key, xr.DataArray]:
        """Mean of each score over dates at each point; NaN where there is none."""
        return {
            key: (total / self._counts[key].where(self._counts[key] > 0))
            .assign_attrs({**total.attrs, "nan_policy": self.nan_policy})
            .rename(key[0])
            for key, total in self._sums.items()
        }


def _pairs(field: xr.DataArray, weights: xr.DataArray) -> pd.Series[int]:
    """Number of points that take part, by date."""
    used = field.notnull() & (weights.drop_vars(list(weights.coords)) > 0)
    counts = used.sum([dim for dim in used.dims if dim != "time"])
    return pd.Series(counts.values, index=pd.DatetimeIndex(counts["time"].values))

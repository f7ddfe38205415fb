"""Ensembles whose members come from several runs or files: lagged ones, and a control apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from weatherpp.conventions import label_text
from weatherpp.errors import InputError

Valid = dict[np.datetime64, set[int]]
Runs = dict[np.datetime64, Valid]
"""By initial time, the valid times of a run and the members that it has at each."""


LAGGED_HINT = (
    "; runs of several initial times are valid at the same times, each with members of its own: "
    "if they are one ensemble, set lagged: true in the catalog entry"
)


def lagged_hint(
    there: NDArray[np.bool_], dims: Sequence[str], labels: Mapping[str, NDArray[Any]]
) -> str:
    """What to do about the gaps of a table if they are those of a lagged ensemble, else nothing.

    Parameters
    ----------
    there
        Whether there is a field, along ``dims``.
    labels
        Those of each dimension.
    """
    wanted = ("time", "step", "number")
    if not set(wanted) <= set(dims):
        return ""
    others = tuple(axis for axis, dim in enumerate(dims) if dim not in wanted)
    kept = [dim for dim in dims if dim in wanted]
    any_of: NDArray[np.bool_] = np.asarray(there.any(axis=others))
    runs = any_of.transpose([kept.index(dim) for dim in wanted])
    valid = [
        start + labels["step"][run.any(axis=1)]
        for start, run in zip(labels["time"], runs, strict=True)
    ]
    members: NDArray[np.bool_] = np.asarray(runs.any(axis=1))
    for i in range(len(valid) - 1):
        if np.intersect1d(valid[i], valid[i + 1]).size and not (members[i] & members[i + 1]).any():
            return LAGGED_HINT
    return ""


def lag(pieces: Sequence[xr.Dataset], where: str, sparse: bool = False) -> list[xr.Dataset]:
    """Runs of different initial times, dated as the latest of those that are one ensemble.

    Runs that are valid at the same time are one ensemble at that time. Where a member number
    stands in two of them, as in monthly forecasts that each use the same numbers, the runs with
    the same valid times are one ensemble and the others another.

    Parameters
    ----------
    pieces
        Canonical forecasts with members.
    sparse
        Allow valid times that only some of the members reach.

    Raises
    ------
    InputError
        A piece has no members, the valid times do not have the same members, or it cannot be
        told which runs are one ensemble.
    """
    runs = _runs(pieces, where)
    whole = {member for run in runs.values() for there in run.values() for member in there}
    latest: dict[tuple[np.datetime64, np.datetime64], np.datetime64] = {}
    ensembles = _ensembles(runs, where)
    for ensemble in ensembles:
        for valid in sorted({valid for start in ensemble for valid in runs[start]}):
            own = [start for start in ensemble if valid in runs[start]]
            lacking = whole.difference(*(runs[start][valid] for start in own))
            if lacking and not sparse:
                raise InputError(
                    f"{where}: at {label_text(valid)} no run with member {min(lacking)} is valid, "
                    "at another time there is; the runs do not belong to one table, or some are "
                    "missing"
                )
            # a field that the latest run lacks is of its ensemble all the same
            known = own if len(ensembles) == 1 else [s for s in ensemble if s <= valid]
            latest |= {(start, valid): max(known) for start in own}
    if all(start == last for (start, _), last in latest.items()):
        return list(pieces)
    return [dated for piece in pieces for dated in _dated(piece, latest)]


def _runs(pieces: Sequence[xr.Dataset], where: str) -> Runs:
    runs: Runs = {}
    for piece in pieces:
        if "number" not in piece.dims:
            raise InputError(f"{where}: a lagged ensemble needs member numbers")
        members = piece["number"].values.tolist()
        for start, valids in zip(piece["time"].values, piece["valid_time"].values, strict=True):
            for valid in valids:
                runs.setdefault(start, {}).setdefault(valid, set()).update(members)
    return runs


def _ensembles(runs: Runs, where: str) -> list[list[np.datetime64]]:
    """Initial times of the runs that belong together."""
    everything = sorted(runs)
    if _twice(runs, everything) is None:
        return [everything]
    sets = {start: frozenset(run) for start, run in runs.items()}
    largest = {valid for valid in sets.values() if not any(valid < v for v in sets.values())}
    ensembles: dict[frozenset[np.datetime64], list[np.datetime64]] = {}
    for start in everything:
        homes = [valid for valid in largest if sets[start] <= valid]
        if len(homes) > 1:
            raise InputError(
                f"{where}: the run of {label_text(start)} has no valid time that tells which of "
                f"{len(homes)} ensembles it belongs to; take it out, or complete it"
            )
        ensembles.setdefault(homes[0], []).append(start)
    found = list(ensembles.values())
    whole = everything if all(len(ensemble) == 1 for ensemble in found) else None
    for ensemble in [whole] if whole else found:
        twice = _twice(runs, ensemble)
        if twice is not None:
            first, second, valid, member = twice
            raise InputError(
                f"{where}: member {member} stands in the runs of {label_text(first)} and "
                f"{label_text(second)}, both valid at {label_text(valid)}; which runs are one "
                "lagged ensemble cannot be told, so give their members different numbers"
            )
    return found


def _twice(
    runs: Runs, ensemble: Sequence[np.datetime64]
) -> tuple[np.datetime64, np.datetime64, np.datetime64, int] | None:
    """Two runs, a valid time and a member that both have then; the first there are."""
    seen: dict[tuple[np.datetime64, int], np.datetime64] = {}
    for start in ensemble:
        for valid, members in runs[start].items():
            for member in sorted(members):
                other = seen.setdefault((valid, member), start)
                if other != start:
                    return other, start, valid, member
    return None


def _dated(
    piece: xr.Dataset, latest: Mapping[tuple[np.datetime64, np.datetime64], np.datetime64]
) -> list[xr.Dataset]:
    """One piece for each date of the runs and each that the latest runs give it."""
    out: list[xr.Dataset] = []
    for i, (own, valid) in enumerate(
        zip(piece["time"].values, piece["valid_time"].values, strict=True)
    ):
        dates = np.array([latest[own, at] for at in valid])
        for start in np.unique(dates):
            steps = np.flatnonzero(dates == start)
            field = piece.isel(time=[i], step=steps).drop_vars("valid_time")
            field = field.assign_coords(time=[start], step=valid[steps] - start)
            out.append(field.assign_coords(valid_time=field["time"] + field["step"]))
    return out


def as_control(piece: xr.Dataset, where: str) -> xr.Dataset:
    """A canonical forecast stored apart from the perturbed members, as member 0.

    Raises
    ------
    InputError
        It has members of another number.
    """
    if "number" not in piece.dims:
        numbered = {name: da.expand_dims(number=[0]) for name, da in piece.data_vars.items()}
        return piece.assign(numbered).transpose("time", "step", "number", ...)
    found = piece["number"].values.tolist()
    if found != [0]:
        raise InputError(
            f"{where}: a control forecast has no member number or 0, here is "
            f"{', '.join(map(str, found[:3]))}; list the file under files.forecast"
        )
    return piece

"""Ensembles whose members come from several runs or files: lagged ones, and a control apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

from weatherpp.errors import InputError


def lag(pieces: Sequence[xr.Dataset], where: str, sparse: bool = False) -> list[xr.Dataset]:
    """Runs of different initial times, dated as the latest of those valid at the same time.

    Parameters
    ----------
    pieces
        Canonical forecasts with members.
    sparse
        Allow valid times that only some of the members reach.

    Raises
    ------
    InputError
        A piece has no members, or the valid times do not have the same members.
    """
    starts: dict[np.datetime64, np.datetime64] = {}
    members: dict[np.datetime64, set[int]] = {}
    for piece in pieces:
        if "number" not in piece.dims:
            raise InputError(f"{where}: a lagged ensemble needs member numbers")
        for start, valids in zip(piece["time"].values, piece["valid_time"].values, strict=True):
            for valid in valids:
                starts[valid] = max(starts.get(valid, start), start)
                members.setdefault(valid, set()).update(piece["number"].values.tolist())
    whole = set[int]().union(*members.values())
    lacking = sorted(valid for valid, there in members.items() if there != whole)
    if lacking and not sparse:
        first, others = lacking[0], whole - members[lacking[0]]
        raise InputError(
            f"{where}: at {pd.Timestamp(first):%Y-%m-%d %H:%M} no run with member {min(others)} is "
            "valid, at another time there is; the runs do not belong to one table, or some are "
            "missing"
        )
    if not _differ(pieces, starts):
        return list(pieces)
    return [dated for piece in pieces for dated in _dated(piece, starts)]


def _differ(pieces: Sequence[xr.Dataset], starts: dict[np.datetime64, np.datetime64]) -> bool:
    return any(
        starts[valid] != start
        for piece in pieces
        for start, valids in zip(piece["time"].values, piece["valid_time"].values, strict=True)
        for valid in valids
    )


def _dated(piece: xr.Dataset, starts: dict[np.datetime64, np.datetime64]) -> list[xr.Dataset]:
    """One piece for each date of the runs and each that the latest runs give it."""
    out: list[xr.Dataset] = []
    for i, valid in enumerate(piece["valid_time"].values):
        latest = np.array([starts[at] for at in valid])
        for start in np.unique(latest):
            steps = np.flatnonzero(latest == start)
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

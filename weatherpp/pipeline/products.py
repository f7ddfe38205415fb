"""Post-processed forecasts as CF netCDF: writing, reading, and applying one model to a file."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import xarray as xr

import weatherpp
from weatherpp import distribution
from weatherpp.data import netcdf
from weatherpp.data.archive import Archive
from weatherpp.data.fields import subsample
from weatherpp.errors import ConfigError, InputError, telling
from weatherpp.methods.base import Method, load_model, read_card
from weatherpp.methods.recent import Recent
from weatherpp.recipe import MemberChoice, ProductSettings
from weatherpp.strict import validate
from weatherpp.verify.accumulate import date_blocks


def product(dist: xr.Dataset, levels: Sequence[float]) -> xr.Dataset:
    """Predictive distribution with mean, spread and quantiles beside its own form.

    The variables of the form stay, so that nothing is lost for verification; ``mean``,
    ``spread`` and ``quantiles`` (dimension ``quantile``) are there whatever the form.
    """
    out = dist.copy()
    out["mean"] = distribution.mean(dist).assign_attrs(cell_methods="number: mean")
    if distribution.form_of(dist) != "members" or dist.sizes["number"] > 1:
        out["spread"] = distribution.spread(dist).assign_attrs(
            cell_methods="number: standard_deviation"
        )
    if distribution.form_of(dist) != "quantiles":
        out["quantiles"] = distribution.quantile(dist, levels).astype(out["mean"].dtype)
    units = next(iter(dist.data_vars.values())).attrs.get("units", "")
    for name in out.data_vars:
        out[name].attrs.setdefault("units", units)
    out.attrs.update(Conventions="CF-1.11", source=f"weatherpp {weatherpp.__version__}")
    return out


def write_product(ds: xr.Dataset, path: Path) -> None:
    """Write CF netCDF, see :func:`weatherpp.data.netcdf.write`."""
    seconds = {"units": "seconds since 1970-01-01", "dtype": "int64"}
    netcdf.write(ds, path, {"time": seconds} if "time" in ds else {})


def read_product(path: Path) -> xr.Dataset:
    """Read a product back; in memory, so that the file is closed.

    Raises
    ------
    InputError
        It is damaged.
    OSError
        It is missing.
    """
    try:
        with xr.open_dataset(path, engine="netcdf4", decode_timedelta=True) as ds:
            return ds.load()
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(
            f"{path}: damaged ({reason}); do the stage that makes it again, with --force"
        ) from None


@contextmanager
def open_product(path: Path) -> Iterator[xr.Dataset]:
    """A product whose values are read as they are needed, some dates at a time."""
    with xr.open_dataset(path, engine="netcdf4", decode_timedelta=True, cache=False) as ds:
        parts = next(date_blocks(ds)) if ds.sizes.get("time") else slice(1)
        yield ds.chunk({"time": parts.stop}) if "time" in ds.dims else ds


def without_scalars(da: xr.DataArray) -> xr.DataArray:
    """Without the coordinates that are single values, which would stand in the way of joins."""
    return da.reset_coords([name for name, c in da.coords.items() if not c.dims], drop=True)


def members_for(
    method: Method, card: Mapping[str, Any], ds: xr.Dataset, model: Path, fewer: bool = False
) -> xr.Dataset:
    """Of a forecast's members, those that a fitted method is made for.

    Parameters
    ----------
    method, card, model
        What was fitted, its ``model.json``, and where it is.
    ds
        Canonical forecast.
    fewer
        A method that takes any number is given all members there are, if these are fewer than
        its recipe chose.

    Raises
    ------
    InputError
        There are not the members it needs.
    """
    if "members" not in card:
        return ds
    choice = validate(MemberChoice, card["members"], f"{model}: members")
    there, count = ds.sizes["number"], len(card["numbers"])
    if fewer and method.any_number and there < count:
        return ds
    found = subsample(ds, choice, int(card.get("seed", 1)))
    if found.sizes["number"] != count and not method.any_number:
        raise InputError(
            f"{model}: fitted on {count} members, the forecast has {found.sizes['number']}; "
            f"give it {count}, or fit with members: {{choose: first, count: "
            f"{found.sizes['number']}}}"
        )
    return found


def apply_model(model: Path, forecast: Path, output: Path, recent: Path | None = None) -> None:
    """Post-process one forecast file with one fitted model.

    The model is given the members it was made for: of the members in the file, those that the
    recipe's choice takes.

    Parameters
    ----------
    model, forecast, output
        Model folder, file to read, file to write.
    recent
        Archive with recent forecasts and analyses, for methods that correct by these.

    Raises
    ------
    InputError
        The model folder, the forecast or the archive cannot be used.
    ConfigError
        There is no place for the output, or it is the forecast itself; an archive is given or
        missing against what the method needs.
    """
    from weatherpp.data.ingest import read_forecast

    with _named_by_user(output):
        if output.exists() and not output.is_file():
            raise ConfigError(f"{output}: is there and is no file; name a file to write")
        if not output.name or not output.parent.is_dir():
            raise ConfigError(f"{output.parent}: no such folder to write to")
        if output.exists() and forecast.exists() and output.samefile(forecast):
            raise ConfigError(f"{output}: is the forecast itself; name another file to write")
    method = load_model(model)
    card = read_card(model)
    if method.needs_recent != (recent is not None):
        advice = "give its archive with --recent" if recent is None else "leave --recent out"
        need = "needs" if recent is None else "does not look at"
        raise ConfigError(f"{model}: method {method.name} {need} recent forecasts; {advice}")

    ds = read_forecast(forecast)
    if recent is not None:
        archive = Archive.open(recent)
        with telling(str(recent)):
            past = members_for(method, card, archive.forecast, model)
            method.recent = Recent.of(archive, past, method.target)
    with telling(str(forecast)):
        dist = method.predict(members_for(method, card, ds, model))
    with _named_by_user(output):
        write_product(product(dist, ProductSettings().quantiles), output)


@contextmanager
def _named_by_user(output: Path) -> Iterator[None]:
    """An output that cannot be written, but for a full disk, is the wrong one."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise ConfigError(
            f"{output}: cannot be written ({error.strerror}); name another file to write"
        ) from None

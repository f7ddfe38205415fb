"""Forecasts and analyses: catalog, ingest, archive, and what is taken from it."""

# before eccodes, for the reason given in weatherpp.conventions
import pyproj  # noqa: F401

"""Strict models of recipes: what may stand in a ``pipelines/*.yaml`` and what it means.

A key that is not known is refused, with the nearest known one named. Nothing here reads data.
"""

from weatherpp.recipe.methods import (
    Choices,
    MemberProduct,
    MethodEntry,
    ProductSettings,
    Range,
    Search,
    Tracking,
)
from weatherpp.recipe.scoring import EXTREME, REGIONS, Bootstrap, Claim, Curve, VerifySettings
from weatherpp.recipe.shown import CaseSettings, FindSettings, ReportSettings
from weatherpp.recipe.sources import (
    CatalogSource,
    FoldSplit,
    Source,
    SpeedySource,
    Split,
    TwinSource,
    WindowSplit,
    YearSplit,
)
from weatherpp.recipe.targets import Finite, MemberChoice, Positive, Target, parse_step
from weatherpp.recipe.whole import Recipe, load_recipe

__all__ = [
    "EXTREME",
    "REGIONS",
    "Bootstrap",
    "CaseSettings",
    "CatalogSource",
    "Choices",
    "Claim",
    "Curve",
    "FindSettings",
    "Finite",
    "FoldSplit",
    "MemberChoice",
    "MemberProduct",
    "MethodEntry",
    "Positive",
    "ProductSettings",
    "Range",
    "Recipe",
    "ReportSettings",
    "Search",
    "Source",
    "SpeedySource",
    "Split",
    "Target",
    "Tracking",
    "TwinSource",
    "VerifySettings",
    "WindowSplit",
    "YearSplit",
    "load_recipe",
    "parse_step",
]

"""What others published for the same data, against what comes out here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from weatherpp.methods.classical.regression import Sample, fit_regression, regression


def test_censored_logistic_regression_of_innsbruck_rain(extra_data: Path) -> None:
    """Coefficients and AIC in Messner, Mayr and Zeileis (2016), The R Journal 8, 173-181
    (vignette of the R package crch), by maximum likelihood on all 13 years."""
    table = pd.read_csv(extra_data / "stations/rain_innsbruck_gefs_reforecast.csv.gz")
    members = np.sqrt(table.filter(like="rainfc").to_numpy())
    use = members.std(axis=1) > 0
    members, truth = members[use], np.sqrt(table["rain"].to_numpy()[use, None])
    mean, sd = members.mean(axis=1)[:, None], members.std(axis=1, ddof=1)[:, None]
    model = regression("censored-logistic", "log", False)
    known = {"a": -0.8527, "b": 0.7869, "c": 0.1174, "d": 0.2705}
    # the scale is constant, or its logarithm is regressed on that of the spread
    for spread, free, aic in ((np.zeros_like(sd), 3, 17906), (np.log(sd), 4, 17850)):
        sample = Sample(mean, spread, np.zeros_like(truth), truth)
        fit = fit_regression(model, sample, np.array([-1]), criterion="likelihood")
        assert fit.failed == 0
        parameters = model.parameters(fit.coefficients, *sample[:3])
        loss = float(model.family.log_score(truth, *parameters).sum())
        assert 2 * loss + 2 * free == pytest.approx(aic, abs=0.6)  # printed without decimals
    for name, value in known.items():
        assert float(fit.coefficients[name][0]) == pytest.approx(value, abs=2e-3), name

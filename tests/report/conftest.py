"""The sample report, rendered once."""

from __future__ import annotations

import pytest
import report_sample as sample

from weatherpp.report.content import ReportData
from weatherpp.report.html import render


@pytest.fixture(scope="session")
def data() -> ReportData:
    return sample.report()


@pytest.fixture(scope="session")
def page(data: ReportData) -> str:
    return render(data)

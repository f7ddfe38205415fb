"""One model for all tests of this folder that need it; they skip without the extra."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from weatherpp.speedy import installed

if TYPE_CHECKING:
    from weatherpp.speedy.model import Speedy


@pytest.fixture(scope="session")
def model() -> Speedy:
    """SPEEDY at T21, compiled, which takes most of the time of these tests."""
    if not installed():
        pytest.skip("needs the extra: pip install 'weatherpp[speedy]'")
    from weatherpp.speedy.archive import speedy

    return speedy(21)

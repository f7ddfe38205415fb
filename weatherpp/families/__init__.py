r"""Named families of distributions: the parametric forms of a predictive distribution.

Each family is one object with plain array functions, so that whoever fits, scores or tells a
distribution takes its formulas from here. Parameters and values broadcast against each other,
results are float64, and NaN in any of them gives NaN. Families that hold for values from zero up
give the CRPS of a value below as that of zero plus the distance.

In the formulas :math:`z = (y - \mu) / \sigma` and :math:`a = \mu / \sigma`, with location
:math:`\mu` and scale :math:`\sigma`; :math:`\mathrm{sp}(z) = \log(1 + e^z)`.

References
----------
Gneiting, T., Raftery, A. E., Westveld, A. H. and Goldman, T. (2005), Mon. Wea. Rev. 133,
1098-1118 (normal).
Thorarinsdottir, T. L. and Gneiting, T. (2010), J. R. Stat. Soc. A 173, 371-388 (truncated normal).
Messner, J. W., Mayr, G. J., Wilks, D. S. and Zeileis, A. (2014), Mon. Wea. Rev. 142, 3003-3014
(censored logistic).
Baran, S. and Lerch, S. (2015), Q. J. R. Meteorol. Soc. 141, 2289-2299 (log-normal).
Scheuerer, M. and Hamill, T. M. (2015), Mon. Wea. Rev. 143, 4578-4596 (censored, shifted gamma).
Jordan, A., Krüger, F. and Lerch, S. (2019), J. Stat. Softw. 90(12) (all closed forms of the CRPS).
"""

from __future__ import annotations

from weatherpp.families.base import Family
from weatherpp.families.gamma import CensoredShiftedGamma
from weatherpp.families.logistic import CensoredLogistic, Logistic, SquaredCensoredLogistic
from weatherpp.families.normal import LogNormal, Normal, TruncatedNormal

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Normal(),
        Logistic(),
        TruncatedNormal(),
        LogNormal(),
        CensoredLogistic(),
        SquaredCensoredLogistic(),
        CensoredShiftedGamma(),
    )
}

"""Points that are alike, to be fitted together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.cluster import vq

from weatherpp.families.base import Array

LEVELS = np.arange(1, 13) / 13  # of the quantiles that points are compared by


def clusters(
    truth: Array, error: Array, enough: NDArray[np.bool_], count: int, seed: int
) -> NDArray[np.intp]:
    """Clusters of points with a like climate and like errors, by k-means.

    A point is described by twelve quantiles of its analyses and twelve of the errors of its
    ensemble mean, each kind divided by its standard deviation over all points and levels (Lerch,
    S. and Baran, S. (2017), J. R. Stat. Soc. C 66, 29-51).

    Parameters
    ----------
    truth, error
        (dates, points); NaN where there is none.
    enough
        (points,) which points have enough dates to be described.
    count
        Number of clusters, cut to that of the points.
    seed
        Decides where the search starts.

    Returns
    -------
    (points,) number of the cluster, -1 for points that are not described.
    """
    out = np.full(enough.size, -1)
    chosen = np.flatnonzero(enough)
    if chosen.size == 0:
        return out
    parts = [np.nanquantile(field[:, chosen], LEVELS, axis=0).T for field in (truth, error)]
    features = np.concatenate([part / (part.std() or 1.0) for part in parts], axis=1)
    distinct = len(np.unique(features, axis=0))
    _, label = vq.kmeans2(
        features, min(count, distinct), minit="++", seed=np.random.default_rng(seed)
    )
    out[chosen] = label
    return out

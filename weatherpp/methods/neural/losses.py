"""Losses: the CRPS of each kind of prediction, plain and with weight on the tails."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

ROOT_2 = math.sqrt(2.0)
ROOT_PI = math.sqrt(math.pi)
# no spread in a division is below this; the losses are in units of a base's spread
FINEST = 1e-6


class _Crps(torch.autograd.Function):
    """CRPS of N(0, spread) at ``error``, with its derivatives in closed form.

    Automatic differentiation of the formula meets 0 * infinity for a small spread; the closed
    forms are bounded by one everywhere.
    """

    @staticmethod
    def forward(ctx: Any, error: Tensor, spread: Tensor) -> Tensor:
        z = error / spread.clamp_min(torch.finfo(spread.dtype).tiny)
        erf, bell = torch.erf(z / ROOT_2), torch.exp(-0.5 * z * z)
        ctx.save_for_backward(erf, bell)
        return error * erf + spread * (ROOT_2 * bell - 1) / ROOT_PI

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor]:
        erf, bell = ctx.saved_tensors
        return grads[0] * erf, grads[0] * (ROOT_2 * bell - 1) / ROOT_PI


def gaussian_crps(mean: Tensor, spread: Tensor, truth: Tensor) -> Tensor:
    """Continuous ranked probability score of a normal distribution.

    Gneiting et al. 2005 (doi:10.1175/MWR2904.1), equation 5, here as

        d erf(d / (sqrt(2) s)) + s / sqrt(pi) (sqrt(2) exp(-d^2 / (2 s^2)) - 1),  d = mean - truth

    whose gradients are erf(d / (sqrt(2) s)) in d and (sqrt(2) exp(-d^2 / (2 s^2)) - 1) / sqrt(pi)
    in s. With spread 0 it is the absolute error.

    Parameters
    ----------
    mean, spread, truth
        Same units, shapes that broadcast; ``spread`` >= 0. Half precision is computed in
        float32.

    Returns
    -------
    Score in the units of the input, float32 or float64.
    """
    dtype = torch.promote_types(torch.promote_types(mean.dtype, truth.dtype), torch.float32)
    error, spread = mean.to(dtype) - truth.to(dtype), spread.to(dtype)
    shape = (error + spread).shape
    score: Tensor = _Crps.apply(error.expand(shape), spread.expand(shape))  # type: ignore[no-untyped-call]
    return score


def ensemble_crps(members: Tensor, truth: Tensor, alpha: float = 0.0) -> Tensor:
    """Almost fair CRPS of an ensemble (Lang et al. 2024, arXiv:2412.15832, equation 4).

    With M members x and the truth y,

        1 / (2 M (M - 1)) sum over pairs of
            |x_j - y| + |x_k - y| - (1 - (1 - alpha) / M) |x_j - x_k|

    whose terms cannot become negative. ``alpha`` 1 is the fair CRPS, which does not depend on the
    number of members, but leaves one of them free where the others are alike; 0 is the plain one.
    The sum over pairs is taken from the sorted members.

    Parameters
    ----------
    members
        Shape (batch, member, ...); at least two, unless ``alpha`` is 0.
    truth
        Shape (batch, ...), same units. Half precision is computed in float32.
    alpha
        Share of the fair score, 0 to 1.

    Returns
    -------
    Score, shape (batch, ...), in the units of the input.

    Raises
    ------
    ValueError
        One member, and ``alpha`` above 0.
    """
    count = members.shape[1]
    if count < 2:
        if alpha > 0:
            raise ValueError("the fair CRPS needs at least two members")
        return (members[:, 0] - truth).abs()
    dtype = torch.promote_types(torch.promote_types(members.dtype, truth.dtype), torch.float32)
    away = members.to(dtype) - truth.to(dtype)[:, None]
    rank = torch.arange(count, device=away.device, dtype=dtype)
    share = (2 * rank - (count - 1)) * (1 - (1 - alpha) / count) / (count * (count - 1))
    sorted_away = away.sort(dim=1).values
    score: Tensor = away.abs().mean(dim=1) - torch.tensordot(sorted_away, share, ([1], [0]))
    return score


def quantile_crps(quantiles: Tensor, levels: Tensor, truth: Tensor) -> Tensor:
    """CRPS approximated by the mean of twice the pinball loss over equally weighted levels.

    Gneiting and Ranjan 2011 (doi:10.1198/jbes.2010.08110), equation 6.

    Parameters
    ----------
    quantiles
        Shape (batch, quantile, ...).
    levels
        Shape (quantile,), in (0, 1).
    truth
        Shape (batch, ...), same units.

    Returns
    -------
    Score, shape (batch, ...), float32 or float64.
    """
    dtype = torch.promote_types(torch.promote_types(quantiles.dtype, truth.dtype), torch.float32)
    over = truth.to(dtype)[:, None] - quantiles.to(dtype)
    at = levels.to(over).reshape(-1, *(1,) * (over.ndim - 2))
    return 2 * torch.maximum(at * over, (at - 1) * over).mean(dim=1)


def _squares(z: Tensor) -> Tensor:
    """Integral of the squared normal distribution function up to ``z``."""
    bell = torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    below = torch.special.ndtr(z)
    out: Tensor = below * (z * below + 2 * bell) - torch.special.ndtr(ROOT_2 * z) / ROOT_PI
    return out


def gaussian_upper_crps(mean: Tensor, spread: Tensor, truth: Tensor, threshold: Tensor) -> Tensor:
    """Threshold-weighted CRPS of a normal distribution: values above ``threshold`` count.

    The integral of (F(x) - 1{truth <= x})^2 over x >= threshold (Gneiting and Ranjan 2011,
    doi:10.1198/jbes.2010.08110, equation 4, with an indicator as weight), which is the CRPS of
    the distribution and the truth both cut off below the threshold. With z = (truth - mean) /
    spread, t likewise, z at least t, and G the integral of the squared normal distribution
    function, it is spread * (G(z) - G(t) + G(-z)).

    Parameters
    ----------
    mean, spread, truth, threshold
        Same units, shapes that broadcast; ``spread`` > 0. Half precision is computed in float32.

    Returns
    -------
    Score in the units of the input, float32 or float64.
    """
    dtype = torch.promote_types(torch.promote_types(mean.dtype, truth.dtype), torch.float32)
    mean, spread, truth, threshold = (v.to(dtype) for v in (mean, spread, truth, threshold))
    scale = spread.clamp_min(FINEST)
    z, t = (torch.maximum(truth, threshold) - mean) / scale, (threshold - mean) / scale
    score: Tensor = scale * (_squares(z) - _squares(t) + _squares(-z))
    return score


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Mean of ``values`` over all dimensions with ``weights`` (broadcast), for example cos(lat).

    Where the weight is zero the value does not count. Without any weight the mean is zero, so that
    a batch of gaps teaches nothing.
    """
    weights = weights.expand_as(values)
    total = weights.sum().clamp(min=torch.finfo(weights.dtype).tiny)
    return torch.where(weights > 0, values * weights, 0.0).sum() / total

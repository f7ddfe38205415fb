"""Losses: the CRPS of a normal distribution, and weighted means."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

ROOT_2 = math.sqrt(2.0)
ROOT_PI = math.sqrt(math.pi)


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


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Mean of ``values`` over all dimensions with ``weights`` (broadcast), for example cos(lat).

    Where the weight is zero the value does not count.
    """
    weights = weights.expand_as(values)
    return torch.where(weights > 0, values * weights, 0.0).sum() / weights.sum()

"""The ``DataLoader`` for samples streamed from an archive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.data import DataLoader

from weatherpp.errors import WeatherppError
from weatherpp.methods.neural.samples import Batch
from weatherpp.methods.neural.stream import ArchiveSamples

GONE_AFTER = 1.0  # seconds until a killed process counts as dead


class _Loader(DataLoader[Batch]):
    """Tells in one line that a worker process is gone."""

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        batches: Any = super().__iter__()
        with told_worker_loss():
            try:
                yield from batches
            except OSError:  # the memory that a worker shared is gone with it
                for worker in getattr(batches, "_workers", []):
                    worker.join(GONE_AFTER)
                    if worker.exitcode:
                        raise _lost() from None
                raise


@contextmanager
def told_worker_loss() -> Iterator[None]:
    """Turn torch's error on the loss of a worker process into one line.

    Torch raises it from a signal handler, so it may also come up in the midst of a training
    step. Put around a whole loop, this catches it there too.

    Raises
    ------
    WeatherppError
        A worker process was killed, or ended by itself.
    """
    try:
        yield
    except RuntimeError as error:
        if str(error).startswith("DataLoader worker (pid"):
            raise _lost() from None
        raise


def _lost() -> WeatherppError:
    return WeatherppError(
        "a worker process that reads training samples was ended from outside, probably because "
        "memory ran out; use fewer workers (with none, threads of this process read), or smaller "
        "batches"
    )


def loader(samples: ArchiveSamples, workers: int = 0) -> DataLoader[Batch]:
    """The ``DataLoader`` for whole batches; the same ones, in the same order, for any number of
    workers.

    A worker process that is gone is told in one line, a ``WeatherppError``.

    Without workers batches are made ahead on threads of this process, which is the faster way
    as long as the training step leaves cores free. Worker processes are spawned: a fork
    would copy zarr's event loop without its thread, and wait for it for ever.
    """
    return _Loader(
        samples,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context="spawn" if workers else None,
    )

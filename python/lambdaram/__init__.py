"""A far array read as if it were here.

>>> import lambdaram
>>> site = lambdaram.open("lram://climate.example.org/merra")
>>> ozone = site.dataset()["ozone"]
>>> plane = ozone[0, 3, :, 100:250]

Blocks that were read stay in this process's memory, and those that the reads so far foretell are
fetched before they are asked for. The same datasets are open to xarray by the engine
``lambdaram``, and to zarr-python by :func:`zarr_store`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._array import Array, Explanation
from ._dataset import Dataset
from ._errors import (
    AddressError,
    Changed,
    Error,
    Forked,
    NotFound,
    OptionError,
    OutOfBounds,
    SourceError,
    Unreachable,
)
from ._opening import Opening
from ._server import Server, serve
from ._site import DatasetEntry, Site, open

if TYPE_CHECKING:
    from ._zarr import LambdaramStore

__all__ = [
    "AddressError",
    "Array",
    "Changed",
    "Dataset",
    "DatasetEntry",
    "Error",
    "Explanation",
    "Forked",
    "NotFound",
    "Opening",
    "OptionError",
    "OutOfBounds",
    "Server",
    "Site",
    "SourceError",
    "Unreachable",
    "open",
    "serve",
    "zarr_store",
]


def zarr_store(address: str, dataset: str | None = None, **options: Any) -> LambdaramStore:
    """A read-only store of zarr-python 3 with the arrays of one dataset.

    Its chunks are the blocks in which the arrays are fetched. The metadata are consolidated, so
    that opening the store asks the server once.

    :param address: such as ``lram://host/merra``; see :func:`open`
    :param dataset: the dataset, if the address names none
    :param options: those of :func:`open`
    """
    from ._zarr import LambdaramStore

    return LambdaramStore.open_address(address, dataset, **options)

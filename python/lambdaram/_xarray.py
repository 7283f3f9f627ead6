"""The engine ``lambdaram`` of xarray.

    xarray.open_dataset("lram://host/merra", engine="lambdaram", chunks={})

xarray decodes the conventions of the attributes, and asks for elements when they are needed.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.backends.common import AbstractDataStore
from xarray.backends.store import StoreBackendEntrypoint
from xarray.core import indexing

from . import _shared
from ._array import Array
from ._dataset import Dataset
from ._errors import Forked, OptionError
from ._opening import Opening


class LambdaramBackendEntrypoint(BackendEntrypoint):
    """Opens a dataset of LambdaRAM by its address."""

    description = "Open datasets of LambdaRAM (lram://HOST/DATASET)"
    open_dataset_parameters = (
        "filename_or_obj",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "drop_variables",
        "use_cftime",
        "decode_timedelta",
        "dataset",
        *(item.name for item in fields(Opening) if item.name != "address"),
    )

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool = True,
        decode_times: Any = True,
        concat_characters: bool = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
        dataset: str | None = None,
        **options: Any,
    ) -> xarray.Dataset:
        """Opens a dataset.

        :param filename_or_obj: an address or path as of :func:`lambdaram.open`, or a
            :class:`lambdaram.Dataset`
        :param dataset: the dataset, if the address names none
        :param options: those of :func:`lambdaram.open`: `memory`, `application`, `secret`,
            `secret_file`, `encrypt`, `insecure`, `tls_ca`, `tls_name`, `tls_pin`, `tls_cert`,
            `tls_key`, `rate`, `prefetch`, `presend`, `views`, `window`, `patience`. A dataset with
            a `secret` is not pickled, and so is not for workers of other processes; one with
            `secret_file`, or with ``RAILS_SECRET`` in the environment, is

        The other parameters are those of xarray's decoders.

        :raises TypeError: for options of other names
        """
        if isinstance(filename_or_obj, Dataset):
            if options or dataset is not None:
                given = [*options, *(["dataset"] if dataset is not None else [])]
                raise OptionError(f"the dataset is open: it takes no {', '.join(given)}")
            opened = filename_or_obj
        else:
            opened = _shared.site(Opening(os.fspath(filename_or_obj), **options))._dataset(dataset, _import_dask)
        decoded = StoreBackendEntrypoint().open_dataset(
            _Store(opened),
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )
        # A site ends with its last array, and a store would be pickled for its `close`.
        decoded.set_close(None)
        return decoded

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        if isinstance(filename_or_obj, Dataset):
            return True
        return isinstance(filename_or_obj, str) and filename_or_obj.startswith(("lram://", "lram+celeritas://"))


class _Store(AbstractDataStore):
    """The variables of a dataset, as xarray's decoders take them."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def get_variables(self) -> dict[str, xarray.Variable]:
        return {name: _variable(array) for name, array in self._dataset.items()}

    def get_attrs(self) -> dict[str, Any]:
        return dict(self._dataset.attrs)

    def get_dimensions(self) -> dict[str, int]:
        return self._dataset.dims

    def get_encoding(self) -> dict[str, Any]:
        return {"source": f"{self._dataset.site.address}"}


class LambdaramBackendArray(BackendArray):
    """An array of LambdaRAM, as xarray indexes it.

    A pickled one is opened again when it is first read: the process that hands tasks out to workers
    may be one that reaches no node.
    """

    def __init__(self, array: Array) -> None:
        self._array: Array | None = array
        self._place = array.place
        self.shape = array.shape
        self.dtype = array.dtype

    @property
    def array(self) -> Array:
        """The array."""
        array = self._array
        if array is None:
            array = self._array = _shared.array(*self._place)
        return array

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray[Any, Any]:
        support = indexing.IndexingSupport.BASIC
        return np.asarray(indexing.explicit_indexing_adapter(key, self.shape, support, self._read))

    def _read(self, key: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        try:
            return np.asarray(self.array[key])
        except Forked:
            # A worker that was forked with the dataset opens it for itself.
            self._array = None
            return np.asarray(self.array[key])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_array": None}


def _import_dask() -> None:
    """Imports dask where it is installed, as xarray does when it makes its first index and array.

    That takes longer than a far node takes to answer, and so is done while it is asked.
    """
    with suppress(ImportError):
        importlib.import_module("dask.array")


def _variable(array: Array) -> xarray.Variable:
    data = indexing.LazilyIndexedArray(LambdaramBackendArray(array))
    blocks = {name: max(extent, 1) for name, extent in zip(array.dims, array.chunks)}
    return xarray.Variable(array.dims, data, dict(array.attrs), {"preferred_chunks": blocks})

"""A read-only store of zarr-python 3, whose chunks are the blocks in which arrays are fetched."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import os
import struct
from collections.abc import AsyncIterator, Iterable
from typing import Any

import numpy as np
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from . import _shared
from ._array import Array
from ._dataset import Dataset
from ._opening import Opening

METADATA = "zarr.json"


class LambdaramStore(Store):
    """The arrays of a dataset as Zarr version 3, uncompressed and with consolidated metadata.

    The metadata are made of those of the dataset, so that no request is needed for them.
    """

    supports_writes = False
    supports_deletes = False
    supports_partial_writes = False
    supports_listing = True

    def __init__(self, dataset: Dataset, *, read_only: bool = True) -> None:
        if not read_only:
            raise ValueError("datasets of LambdaRAM are read, and not written to")
        super().__init__(read_only=True)
        self._dataset = dataset
        self._documents = _documents(dataset)

    @classmethod
    def open_address(
        cls, address: str | os.PathLike[str], dataset: str | None = None, **options: Any
    ) -> LambdaramStore:
        """Opens the dataset of an address, as :func:`lambdaram.zarr_store` does."""
        return cls(_shared.site(Opening(os.fspath(address), **options)).dataset(dataset))

    def with_read_only(self, read_only: bool = False) -> LambdaramStore:
        return type(self)(self._dataset, read_only=read_only)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        content: bytes | np.ndarray[Any, Any] | None = self._documents.get(key)
        if content is None:
            place = self._place(key)
            if place is None:
                return None
            content = await asyncio.to_thread(_chunk, *place)
        prototype = prototype or default_buffer_prototype()
        elements = np.frombuffer(content, "u1") if isinstance(content, bytes) else content
        return prototype.buffer.from_array_like(elements[_range(byte_range, elements.size)])

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        return list(await asyncio.gather(*(self.get(key, prototype, wanted) for key, wanted in key_ranges)))

    async def exists(self, key: str) -> bool:
        return key in self._documents or self._place(key) is not None

    async def getsize(self, key: str) -> int:
        if key in self._documents:
            return len(self._documents[key])
        place = self._place(key)
        if place is None:
            raise FileNotFoundError(key)
        array, _ = place
        return math.prod(_chunk_shape(array)) * array.dtype.itemsize

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()

    async def delete(self, key: str) -> None:
        self._check_writable()

    async def list(self) -> AsyncIterator[str]:
        for key in self._keys():
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for key in self._keys():
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        names = dict.fromkeys(key[len(folder) :].split("/")[0] for key in self._keys() if key.startswith(folder))
        for name in names:
            yield name

    def _place(self, key: str) -> tuple[Array, tuple[int, ...]] | None:
        """The array of a chunk's key, and the chunk's place in the grid of chunks."""
        name, _, coordinates = key.rpartition("/c/") if "/c/" in key else (key.removesuffix("/c"), "", "")
        if name not in self._dataset or (not coordinates and not key.endswith("/c")):
            return None
        array = self._dataset[name]
        counts = _chunk_counts(array)
        numbers = coordinates.split("/") if coordinates else []
        if len(numbers) != len(counts) or not all(number.isascii() and number.isdigit() for number in numbers):
            return None
        place = tuple(int(number) for number in numbers)
        is_inside = all(number < count for number, count in zip(place, counts))
        return (array, place) if is_inside else None

    def _keys(self) -> Iterable[str]:
        yield from self._documents
        for name, array in self._dataset.items():
            for place in np.ndindex(*_chunk_counts(array)):
                yield "/".join([name, "c", *map(str, place)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LambdaramStore) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Opening, str, int]:
        return self._dataset.site._opening, self._dataset.name, self._dataset.generation

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._dataset,)

    def __str__(self) -> str:
        return f"lambdaram:{self._dataset.site._opening.address} {self._dataset.name}"

    def __repr__(self) -> str:
        return f"LambdaramStore({str(self)!r})"


def _documents(dataset: Dataset) -> dict[str, bytes]:
    """The metadata of the group, of the groups within it, and of the arrays."""
    arrays = {name: _array_metadata(array) for name, array in dataset.items()}
    groups = {}
    for name in arrays:
        parts = name.split("/")
        for depth in range(1, len(parts)):
            groups["/".join(parts[:depth])] = _group_metadata({})
    nodes = groups | arrays
    root = _group_metadata(_json_attributes(dataset.attrs))
    root["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": nodes}
    documents = {METADATA: root} | {f"{name}/{METADATA}": node for name, node in nodes.items()}
    return {key: json.dumps(document).encode() for key, document in documents.items()}


def _group_metadata(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def _array_metadata(array: Array) -> dict[str, Any]:
    attributes = _json_attributes(array.attrs)
    if "_FillValue" in attributes:
        attributes["_FillValue"] = _encoded_fill_value(array)
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": array.shape,
        "data_type": _data_type(array.dtype),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": _chunk_shape(array)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": _json_fill_value(_fill_value(array)),
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "dimension_names": array.dims,
        "attributes": attributes,
    }


def _data_type(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "S":
        return {"name": "null_terminated_bytes", "configuration": {"length_bytes": dtype.itemsize}}
    return dtype.name


def _fill_value(array: Array) -> Any:
    return array.dtype.type() if array.fill_value is None else array.fill_value


def _json_fill_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, np.floating) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value.item()


def _encoded_fill_value(array: Array) -> Any:
    """The attribute `_FillValue` as xarray has it in Zarr: of floats, the bytes of a double."""
    value = array.attrs["_FillValue"]
    if array.dtype.kind == "f":
        return base64.standard_b64encode(struct.pack("<d", float(value))).decode()
    if array.dtype.kind == "S":
        return base64.standard_b64encode(value.encode() if isinstance(value, str) else value).decode()
    return value.item() if isinstance(value, np.generic) else value


def _json_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: _json_value(value) for name, value in attributes.items()}


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        # Text in an unknown encoding.
        return value.decode("latin-1")
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def _chunk_shape(array: Array) -> tuple[int, ...]:
    """The shape of a block; 1 along an axis without elements, for Zarr has no chunks of none."""
    return tuple(max(extent, 1) for extent in array.chunks)


def _chunk_counts(array: Array) -> tuple[int, ...]:
    return tuple(-(-extent // side) for extent, side in zip(array.shape, _chunk_shape(array)))


def _chunk(array: Array, place: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The bytes of a chunk. One at the array's edge is filled up."""
    chunk_shape = _chunk_shape(array)
    starts = [number * side for number, side in zip(place, chunk_shape)]
    region = tuple(slice(start, start + side) for start, side in zip(starts, chunk_shape))
    elements = np.asarray(array[region])
    if elements.shape != chunk_shape:
        whole = np.full(chunk_shape, _fill_value(array), array.dtype)
        whole[tuple(slice(0, extent) for extent in elements.shape)] = elements
        elements = whole
    little = elements.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.frombuffer(little.data.cast("B"), "u1") if little.ndim else np.frombuffer(little.tobytes(), "u1")


def _range(wanted: ByteRequest | None, size: int) -> slice:
    match wanted:
        case None:
            return slice(None)
        case RangeByteRequest(start, end):
            return slice(start, end)
        case OffsetByteRequest(offset):
            return slice(offset, None)
        case SuffixByteRequest(suffix):
            return slice(max(size - suffix, 0), None)
        case _:
            raise TypeError(f"{wanted!r} is no range of bytes")

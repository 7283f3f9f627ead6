"""The store of zarr-python, against the arrays."""

from __future__ import annotations

import asyncio
import json
import pickle

import numpy as np
import pytest
import xarray
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype

import lambdaram


@pytest.fixture
def store(server):
    return lambdaram.zarr_store(server.address(), memory="16MiB")


def get(store, key, byte_range=None):
    value = asyncio.run(store.get(key, default_buffer_prototype(), byte_range))
    return None if value is None else value.to_bytes()


def test_groups_have_the_arrays(store, elements):
    group = zarr.open_group(store, mode="r")
    assert set(group.array_keys()) == set(elements)
    for name, expected in elements.items():
        array = group[name]
        assert array.shape == expected.shape
        assert np.array_equal(array[...], expected), name
    assert np.array_equal(group["wind"][3, 1:3, ::7, 4], elements["wind"][3, 1:3, ::7, 4])
    assert group.attrs["title"] == "Winds of a planet"


def test_metadata_are_consolidated(store):
    root = json.loads(get(store, "zarr.json"))
    nodes = root["consolidated_metadata"]["metadata"]
    assert nodes["wind"]["dimension_names"] == ["time", "level", "lat", "lon"]
    assert json.loads(get(store, "wind/zarr.json")) == nodes["wind"]
    assert get(store, "winds/zarr.json") is None


def test_xarray_reads_the_store(store, climate_file):
    with xarray.open_dataset(climate_file, engine="netcdf4") as near, xarray.open_zarr(store) as far:
        # The types of attributes are not Zarr's: a factor of 32 bits becomes one of 64.
        xarray.testing.assert_allclose(far.drop_vars("names").load(), near.drop_vars("names"))
        assert np.array_equal(np.isnan(far["wind"]), np.isnan(near["wind"]))
        assert far["wind"].attrs == near["wind"].attrs and far["time"].dtype.kind == "M"


def test_chunks_at_the_edge_are_filled_up(tmp_path):
    expected = np.random.default_rng(2).random((6, 200, 301))
    write_zarr(tmp_path / "cube.zarr", expected, (2, 100, 64))
    with lambdaram.serve(tmp_path / "cube.zarr") as server:
        store = lambdaram.zarr_store(server.address(), memory="16MiB")
        array = zarr.open_group(store, mode="r")["cube"]
        key = (slice(3, 6), slice(150, 200), slice(250, None))
        assert np.array_equal(array[key], expected[key])
        far = lambdaram.open(server.address(), memory="16MiB").dataset()["cube"]
        assert np.array_equal(far[key], expected[key])
        assert array.chunks == far.chunks
        last = [-(-extent // side) - 1 for extent, side in zip(expected.shape, far.chunks)]
        chunk = np.frombuffer(get(store, "/".join(["cube", "c", *map(str, last)]))).reshape(far.chunks)
        inside = tuple(slice(number * side, None) for number, side in zip(last, far.chunks))
        edge = expected[inside]
        assert edge.shape != chunk.shape
        assert np.array_equal(chunk[tuple(map(slice, edge.shape))], edge)


def test_ranges_of_bytes(store):
    whole = get(store, "ozone/c/0/0/0")
    assert get(store, "ozone/c/0/0/0", RangeByteRequest(10, 30)) == whole[10:30]
    assert get(store, "ozone/c/0/0/0", OffsetByteRequest(100)) == whole[100:]
    assert get(store, "ozone/c/0/0/0", SuffixByteRequest(7)) == whole[-7:]
    assert get(store, "zarr.json", SuffixByteRequest(1)) == b"}"
    assert asyncio.run(store.getsize("ozone/c/0/0/0")) == len(whole)


def test_keys(store):
    async def listed(keys):
        return [key async for key in keys]

    keys = asyncio.run(listed(store.list()))
    assert "zarr.json" in keys and "wind/zarr.json" in keys and "depth/c" in keys
    assert all(asyncio.run(store.exists(key)) for key in keys)
    assert set(asyncio.run(listed(store.list_dir("ozone")))) == {"zarr.json", "c"}
    assert "ozone" in asyncio.run(listed(store.list_dir("")))
    assert asyncio.run(listed(store.list_prefix("ozone/z"))) == ["ozone/zarr.json"]
    for key in ["ozone/c/0/0", "ozone/c/99/0/0", "ozone/c/-1/0/0", "ozone/c/a/0/0", "ozone/c", "ozone", "c/0", ""]:
        assert get(store, key) is None
        assert not asyncio.run(store.exists(key))


def test_stores_are_read_only(store, server):
    assert store.read_only and not store.supports_writes
    with pytest.raises(ValueError, match="read"):
        asyncio.run(store.delete("zarr.json"))
    with pytest.raises(ValueError):
        store.with_read_only(False)
    assert store == pickle.loads(pickle.dumps(store)) == lambdaram.zarr_store(server.address(), memory="16MiB")


def write_zarr(path, elements, chunks):
    group = zarr.open_group(path, mode="w", zarr_format=3)
    array = group.create_array("cube", shape=elements.shape, chunks=chunks, dtype=elements.dtype)
    array[...] = elements

"""Dask's schedule as hints."""

from __future__ import annotations

import dask
import dask.array
import numpy as np
import pytest
import xarray

import lambdaram
import lambdaram.dask


@pytest.fixture
def told(monkeypatch):
    """The regions that arrays are told of, by the name of the array."""
    told = {}
    announce = lambdaram.dask._announce

    def noted(graph):
        arrays = lambdaram.dask._regions(graph)
        told.update({array.name: regions for array, regions in arrays.items()})
        return announce(graph)

    monkeypatch.setattr(lambdaram.dask, "_announce", noted)
    return told


@pytest.fixture
def far(server):
    # Chunks of their own kind, so that there are several of this small array.
    dataset = lambdaram.open(server.address(), memory="16MiB").dataset()
    wind = dask.array.from_array(dataset["wind"], chunks=(4, 5, 30, 90))
    return xarray.Dataset({"wind": (("time", "level", "lat", "lon"), wind)})


def test_a_graph_reads_what_it_announces(far, elements, told):
    assert lambdaram.dask.hint(far["wind"].mean("time")) == 12
    regions = told["wind"]
    assert sorted(set(regions)) == sorted(regions)
    assert {extents for _, extents in regions} == {(4, 5, 30, 90)}
    assert {starts for starts, _ in regions} == {(time, 0, lat, 0) for time in range(0, 24, 4) for lat in (0, 30)}


def test_regions_are_announced_in_the_order_of_reading(far, elements, told, monkeypatch):
    read = []
    monkeypatch.setattr(lambdaram.Array, "__getitem__", noting(lambdaram.Array.__getitem__, read))
    with dask.config.set(scheduler="sync"), lambdaram.dask.schedule():
        mean = far["wind"].mean("time").compute()
    np.testing.assert_allclose(mean, elements["wind"].mean(axis=0), rtol=1e-4, atol=1e-4)
    assert read == [starts for starts, _ in told["wind"]]


def test_slices_of_a_graph_are_announced(far, told):
    part = far["wind"].isel(lat=slice(3, 20, 2), level=0)
    assert lambdaram.dask.hint(part) >= 6
    assert all(starts[2] < 30 for starts, _ in told["wind"])


def test_datasets_of_xarray(server, told, elements):
    far = xarray.open_dataset(server.address(), engine="lambdaram", chunks={}, memory="16MiB")
    with dask.config.set(scheduler="threads"), lambdaram.dask.schedule():
        total = float((far["ozone"].isel(time=slice(0, 6)) - 300).sum())
    np.testing.assert_allclose(total, elements["ozone"][:6].astype("f8").sum() * 0.25, rtol=1e-4)
    assert told["ozone"] and "wind" not in told


def test_graphs_of_others(told):
    assert lambdaram.dask.hint(dask.array.ones((10, 10), chunks=5).sum(), 7) == 0
    with lambdaram.dask.schedule():
        assert dask.array.ones((10, 10), chunks=5).sum().compute() == 100
    assert told == {}


def noting(getitem, read):
    def noted(array, key):
        if getattr(lambdaram._array._recording, "regions", None) is None:
            read.append(lambdaram._indexing.select(key, array.shape).starts)
        return getitem(array, key)

    return noted

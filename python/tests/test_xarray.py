"""The engine of xarray, against that of netCDF4."""

from __future__ import annotations

import gc
import multiprocessing
import pickle

import numpy as np
import pytest
import xarray

import lambdaram


@pytest.fixture
def near(climate_file):
    with xarray.open_dataset(climate_file, engine="netcdf4") as dataset:
        yield dataset.load()


@pytest.fixture
def far(server):
    return xarray.open_dataset(server.address(), engine="lambdaram", memory="16MiB")


def test_datasets_are_identical(far, near):
    xarray.testing.assert_identical(far.load(), near)
    assert far["time"].dtype.kind == "M" and "time" in far.indexes


def test_coordinates_are_read_and_data_is_not(server):
    dataset = lambdaram.open(server.address(), memory="16MiB").dataset()
    far = xarray.open_dataset(dataset, engine="lambdaram")
    assert far.indexes["lat"].size == 60
    assert dataset["wind"].stats() == {}
    far["wind"][0].load()
    assert dataset["wind"].stats()["misses"] > 0


def test_selections_are_identical(far, near):
    rng = np.random.default_rng(5)
    for dataset_key in [
        {"time": 3, "lat": slice(10, 20)},
        {"time": slice(None, None, -2), "lon": [5, 2, 80]},
        {"lat": rng.integers(0, 60, 7), "lon": rng.integers(0, 90, 4), "level": -1},
        {"time": xarray.DataArray([1, 5, 9], dims="track"), "lat": xarray.DataArray([0, 7, 3], dims="track")},
        {"lat": np.arange(60) % 7 == 0},
        {"level": slice(2, 2)},
    ]:
        xarray.testing.assert_identical(far.isel(dataset_key).load(), near.isel(dataset_key))
    xarray.testing.assert_identical(
        far.sel(lat=slice(10, 30)).wind.isel(time=0).load(), near.sel(lat=slice(10, 30)).wind.isel(time=0)
    )


def test_chunks_are_blocks(server, near):
    dask = pytest.importorskip("dask")
    far = xarray.open_dataset(server.address(), engine="lambdaram", chunks={}, memory="16MiB")
    wind = lambdaram.open(server.address(), memory="16MiB").dataset()["wind"]
    assert tuple(sides[0] for sides in far["wind"].chunks) == wind.chunks
    with dask.config.set(scheduler="threads"):
        xarray.testing.assert_allclose(far.mean("time").load(), near.mean("time"), atol=1e-4)


def test_an_opened_dataset_and_a_name(server, climate_file, near):
    opened = xarray.open_dataset(lambdaram.open(server.address(), memory="16MiB").dataset(), engine="lambdaram")
    xarray.testing.assert_identical(opened.load(), near)
    named = xarray.open_dataset(server.addresses[0], engine="lambdaram", dataset="climate", memory="16MiB")
    xarray.testing.assert_identical(named["ozone"].load(), near["ozone"])
    of_file = xarray.open_dataset(climate_file, engine="lambdaram", memory="16MiB")
    xarray.testing.assert_identical(of_file["ozone"].load(), near["ozone"])


def test_the_engine_knows_its_addresses():
    engine = xarray.backends.list_engines()["lambdaram"]
    assert engine.guess_can_open("lram://host/merra") and engine.guess_can_open("lram+celeritas://host/merra")
    assert not engine.guess_can_open("merra.nc") and not engine.guess_can_open(b"lram://host/merra")


def test_pickles(far, near):
    again = pickle.loads(pickle.dumps(far))
    xarray.testing.assert_identical(again.load(), near)


def test_a_pickle_is_opened_when_it_is_read(climate_file):
    with lambdaram.serve(climate_file) as server:
        far = xarray.open_dataset(server.address(), engine="lambdaram", memory="16MiB", patience=2.0)
        pickled = pickle.dumps(far)
        del far
    gc.collect()
    again = pickle.loads(pickled)
    assert again["wind"].shape == (24, 5, 60, 90)
    with pytest.raises(lambdaram.Unreachable):
        again["wind"].load()


def test_workers_that_were_forked(far, near):
    far["wind"][0].load()
    with multiprocessing.get_context("fork").Pool(2, initializer=remember, initargs=(far,)) as pool:
        for time, mean in enumerate(pool.map(mean_of_step, range(4))):
            assert mean == float(near["wind"][time].mean())


def remember(dataset):
    global remembered
    remembered = dataset


def mean_of_step(time):
    return float(remembered["wind"][time].mean())

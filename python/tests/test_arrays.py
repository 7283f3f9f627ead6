"""Arrays, against numpy."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import lambdaram


def random_key(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple:
    """A key of basic indexing, with all its oddities."""

    def entry(extent: int):
        kind = rng.integers(6)
        if kind == 0:
            return int(rng.integers(-extent, extent))
        if kind == 1:
            return slice(None)
        start, stop = (None if rng.random() < 0.2 else int(rng.integers(-extent - 3, extent + 4)) for _ in range(2))
        step = None if rng.random() < 0.3 else int(rng.choice([-7, -3, -2, -1, 1, 2, 3, 11, 1000]))
        return slice(start, stop, step)

    key = [entry(extent) for extent in shape[: rng.integers(len(shape) + 1)]]
    if rng.random() < 0.4:
        cut = int(rng.integers(len(key) + 1))
        # Those behind the ellipsis are of the last axes.
        tail = [entry(extent) for extent in shape[len(shape) - (len(key) - cut) :]] if len(key) > cut else []
        key = key[:cut] + [Ellipsis] + tail
    return tuple(key)


@pytest.mark.parametrize("seed", range(4))
def test_random_keys_equal_numpy(dataset, elements, seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        name = str(rng.choice(["wind", "ozone", "time", "names", "depth", "of_i8"]))
        key = random_key(rng, elements[name].shape)
        expected = elements[name][key]
        actual = dataset[name][key]
        assert np.shape(actual) == np.shape(expected), (name, key)
        assert np.array_equal(actual, expected), (name, key)
        assert actual.dtype == expected.dtype, (name, key)


def test_every_type_is_read(dataset, elements):
    for name, expected in elements.items():
        array = dataset[name]
        assert array.dtype == expected.dtype.newbyteorder("=")
        assert array.shape == expected.shape
        assert np.array_equal(np.asarray(array), expected)


def test_facts(dataset):
    wind = dataset["wind"]
    assert wind.dims == ("time", "level", "lat", "lon")
    assert wind.shape == (24, 5, 60, 90) and wind.ndim == 4
    assert wind.nbytes == 24 * 5 * 60 * 90 * 4
    assert wind.attrs["units"] == "m s-1"
    assert wind.fill_value == np.float32(-9999)
    assert all(1 <= side <= extent for side, extent in zip(wind.chunks, wind.shape))
    assert dataset.attrs["title"] == "Winds of a planet"
    assert dataset.attrs["version"] == 3 and dataset.attrs["version"].dtype == np.int32
    assert np.array_equal(dataset.attrs["levels_hpa"], np.array([1000, 500, 100], "f4"))
    assert dataset.dims["lat"] == 60 and "wind" in dataset and len(dataset) == len(list(dataset))
    assert "lambdaram.Array climate/wind" in repr(wind) and "wind (time, level" in repr(dataset)


def test_sites_list_and_find_datasets(site, server):
    assert [entry.name for entry in site.datasets()] == ["climate"]
    assert site["climate"].name == site.dataset().name == "climate"
    assert lambdaram.open(server.addresses[0]).dataset().name == "climate"
    assert list(site.links()) == [site.address.removeprefix("lram://").split("/")[0]]


def test_elements_can_be_written_to(dataset):
    row = dataset["wind"][0, 0, 0]
    row += 1
    assert row.flags.writeable and row.flags.c_contiguous


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        ((None, 0), TypeError, "new axis"),
        (([0, 1],), TypeError, "list"),
        ((np.array([True, False]),), TypeError, "ndarray"),
        ((True,), TypeError, "bool"),
        (("time",), TypeError, "str"),
        ((1.0,), TypeError, "float"),
        ((0, 0, 0, 0, 0), lambdaram.OutOfBounds, "4 axes"),
        ((24,), lambdaram.OutOfBounds, "index 24 is out of bounds for axis 0 with size 24"),
        ((0, -6), lambdaram.OutOfBounds, "axis 1"),
        ((..., ...), IndexError, "ellipsis"),
        ((slice(None, None, 0),), ValueError, "zero"),
    ],
)
def test_keys_that_are_refused(dataset, key, error, words):
    with pytest.raises(error, match=words):
        dataset["wind"][key]


def test_threads_read_at_the_same_time(dataset, elements):
    wind = dataset["wind"]
    keys = [(time, level, slice(time, 60)) for time in range(24) for level in range(5)]
    with ThreadPoolExecutor(16) as pool:
        for key, actual in zip(keys, pool.map(wind.__getitem__, keys)):
            assert np.array_equal(actual, elements["wind"][key])


def test_readers_of_their_own(dataset, elements):
    assert dataset["wind"] is dataset["wind"]
    alone = dataset.array("wind")
    assert alone is not dataset["wind"]
    assert np.array_equal(alone[7, ::2], elements["wind"][7, ::2])


def test_expected_reads_are_fetched_ahead(site, elements):
    wind = site.dataset()["wind"]
    # An order that no detector would find.
    order = list(np.random.default_rng(1).permutation(24))
    assert wind.expect([(time, slice(0, 2)) for time in order] + [(slice(0, 0),)]) == 24
    for time in order:
        assert np.array_equal(wind[time, :2], elements["wind"][time, :2])
    with pytest.raises(lambdaram.OutOfBounds):
        wind.expect([24])


def test_stats_explain_and_warm(site):
    wind = site.dataset()["wind"]
    assert wind.stats() == {}
    before = wind.explain((0, slice(0, 1)))
    assert before.wanted_bytes == 60 * 90 * 4 and before.missing_bytes >= before.wanted_bytes
    assert before.block_shape == wind.chunks and not before.blocks[0][1]
    wind[0, 0:1]
    after = wind.explain((0, slice(0, 1)))
    assert after.missing_bytes == 0 and all(is_cached for _, is_cached in after.blocks)
    assert after.blocks[0][0][0].start == 0
    assert wind.stats()["misses"] >= 1
    assert wind.warm((slice(0, 2),)) >= 1
    assert site.status()["slots"] * site.status()["slot_bytes"] == 16 << 20


def test_pickles_are_opened_again(dataset, elements):
    wind = pickle.loads(pickle.dumps(dataset["wind"]))
    assert np.array_equal(wind[3], elements["wind"][3])
    again = pickle.loads(pickle.dumps(dataset))
    assert again is wind.dataset and again.site is pickle.loads(pickle.dumps(dataset.site))


def test_files_need_no_server(climate_file, elements):
    wind = lambdaram.open(climate_file, memory="16MiB").dataset()["wind"]
    assert np.array_equal(wind[::-3, 2, 5:50], elements["wind"][::-3, 2, 5:50])


def test_small_arrays_come_with_the_description(server, elements):
    site = lambdaram.open(server.address(), memory="16MiB")
    time = site.dataset()["time"]
    assert np.array_equal(time[...], elements["time"])
    assert time.stats() == {}


def test_regular_reads_are_foreseen(server, elements):
    wind = lambdaram.open(server.address(), memory="16MiB").dataset()["wind"]
    for time in range(24):
        for level in (1, 3):
            actual = wind[time, level, 20:40, 30:60]
            assert np.array_equal(actual, elements["wind"][time, level, 20:40, 30:60])
    stats = wind.stats()
    assert stats["ahead_hits"] + stats["late_ahead"] > stats["misses"] and stats["ahead_fetched"] > 0
    blind = lambdaram.open(server.address(), memory="16MiB", prefetch=False).dataset()["wind"]
    for time in range(24):
        blind[time, 1, 20:40, 30:60]
    assert blind.stats()["ahead_fetched"] == 0

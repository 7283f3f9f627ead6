"""Datasets in other processes: those of dask's schedulers, and the children of forks."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import dask
import distributed
import numpy as np
import pytest
import xarray
from conftest import Relay

import lambdaram


@pytest.fixture
def far(server):
    far = xarray.open_dataset(server.address(), engine="lambdaram", memory="16MiB", mask_and_scale=False, chunks={})
    # Several tasks for several processes.
    return far.chunk(lon=30)


def test_processes_of_dask(far, elements):
    with dask.config.set(scheduler="processes", num_workers=2):
        mean = far["wind"].mean("time").compute()
    np.testing.assert_allclose(mean, elements["wind"].mean(axis=0), rtol=1e-3, atol=1e-3)


def test_workers_of_distributed(far, elements, tmp_path):
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=tmp_path, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        mean = far["wind"].mean("time").compute()
        read = client.submit(lambda array: array[3, 1:3], lambdaram.open(far.encoding["source"]).dataset()["wind"])
        assert np.array_equal(read.result(), elements["wind"][3, 1:3])
    np.testing.assert_allclose(mean, elements["wind"].mean(axis=0), rtol=1e-3, atol=1e-3)


def test_everything_that_is_pickled(server, elements):
    site = lambdaram.open(server.address(), memory="16MiB")
    dataset = site.dataset()
    store = lambdaram.zarr_store(server.address(), memory="16MiB")
    for something in [site, dataset, dataset["wind"], store]:
        again = pickle.loads(pickle.dumps(something))
        assert type(again) is type(something)
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        assert np.array_equal(pool.apply(first_of, (dataset["wind"],)), elements["wind"][0])


def first_of(array):
    return array[0]


@pytest.mark.parametrize("what", ["site", "dataset", "asked", "array", "store", "server"])
def test_objects_of_a_parent(server, climate_file, what):
    """A child of a fork hears at once that nothing of its parent's works there."""
    own_server = lambdaram.serve(climate_file)
    site = lambdaram.open(server.address(), memory="16MiB")
    dataset = site.dataset()
    wind = dataset["wind"]
    wind[0]
    asked = site._site.ask("climate")
    store = lambdaram.zarr_store(server.address(), memory="16MiB")
    uses = {
        "site": site.datasets,
        "dataset": lambda: site.dataset("climate"),
        "asked": asked.wait,
        "array": lambda: wind[20],
        "store": lambda: lambdaram._zarr._chunk(store._dataset["wind"], (0, 0, 0, 0)),
        "server": own_server.close,
    }

    def use():
        try:
            uses[what]()
        except lambdaram.Forked as error:
            return "process" in str(error) and "open it again" in str(error)
        # A server is its parent's to close.
        return what == "server"

    assert in_fork(use)
    assert asked.wait().name == "climate"
    with pytest.raises(lambdaram.Error, match="before"):
        asked.wait()
    if what == "server":
        assert lambdaram.open(own_server.address(), memory="16MiB").dataset().name == "climate"


def test_a_fork_while_others_read(server, elements):
    """The locks that other threads hold at the fork do not stop the child."""
    wind = lambdaram.open(server.address(), memory="4MiB", prefetch=False).dataset()["wind"]
    ends = threading.Event()

    def read() -> None:
        while not ends.is_set():
            for step in range(24):
                wind[step]

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(8):
            assert in_fork(lambda: np.array_equal(wind.reopened()[7], elements["wind"][7]))
    finally:
        ends.set()
        for reader in readers:
            reader.join()


def test_an_interrupted_computation(server):
    """Ctrl-C ends a computation of dask's threads, whose reads wait."""
    program = """
        import dask, lambdaram, sys, xarray
        far = xarray.open_dataset(sys.argv[1], engine="lambdaram", memory="16MiB", chunks={}, patience=60.0)
        try:
            print("open", flush=True)
            sys.stdin.readline()
            far["wind"].mean().compute(scheduler="threads", num_workers=2)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    with Relay(int(server.addresses[0].rpartition(":")[2])) as relay:
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", textwrap.dedent(program), relay.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        with child:
            assert child.stdout.readline() == "open\n"
            relay.is_stalled = True
            child.stdin.write("\n")
            child.stdin.flush()
            assert relay.holds.wait(60)
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            # Its threads are waited for at the end, and the node is back.
            relay.is_stalled = False
            assert child.wait(timeout=60) == 0


def in_fork(check) -> bool:
    """Whether a check is true in the child of a fork."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if check() else 2
        finally:
            # Without pytest's end.
            os._exit(status)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child of a fork hangs")
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1]) == 0

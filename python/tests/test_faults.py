"""Everything that goes wrong, as exceptions."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import xarray
from conftest import Relay, write_climate

import lambdaram


def test_addresses_and_options_that_are_wrong(tmp_path):
    for address, error in [
        ("", lambdaram.AddressError),
        ("http://host/merra", lambdaram.AddressError),
        ("lram://host:0/merra", ValueError),
        (tmp_path / "none.nc", lambdaram.NotFound),
        (tmp_path, lambdaram.NotFound),
    ]:
        with pytest.raises(error):
            lambdaram.open(address)
    for options in [
        {"memory": "1KiB"},
        {"memory": "much"},
        {"patience": -1.0},
        {"application": ""},
    ]:
        with pytest.raises(lambdaram.OptionError):
            lambdaram.open("lram://127.0.0.1:1/merra", **options)
    with pytest.raises(lambdaram.OptionError, match="protected"):
        lambdaram.open("lram://192.0.2.1/merra")
    with pytest.raises(lambdaram.OptionError, match="protected"):
        lambdaram.serve(write(tmp_path), "0.0.0.0:0")


def test_missing_datasets_and_arrays(site):
    with pytest.raises(lambdaram.NotFound, match="`merra`"):
        site["merra"]
    with pytest.raises(KeyError, match="no array `winds`; it has .*wind"):
        site.dataset()["winds"]
    assert "winds" not in site.dataset()


def test_a_file_that_is_damaged(tmp_path):
    path = tmp_path / "damaged.nc"
    path.write_bytes(b"CDF\x01 and no header")
    with pytest.raises(lambdaram.SourceError, match="damaged.nc"):
        lambdaram.open(path)
    assert issubclass(lambdaram.SourceError, OSError)


def test_a_node_that_does_not_answer():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    site = lambdaram.open(f"lram://127.0.0.1:{port}/merra", memory="16MiB", patience=0.5)
    with pytest.raises(ConnectionError, match=f"127.0.0.1:{port}"):
        site.dataset()


@pytest.mark.parametrize("is_served", [False, True])
def test_a_changed_source(tmp_path, is_served):
    path = write(tmp_path)
    server = lambdaram.serve(path) if is_served else None
    site = lambdaram.open(server.address() if server else path, memory="16MiB", prefetch=False)
    before = site.dataset()
    first = before["wind"][0, 0]
    replacement = tmp_path / "new"
    write_climate(replacement, seed=1)
    os.replace(replacement, path)
    with pytest.raises(lambdaram.Changed):
        for _ in range(200):
            before["wind"][23]
            time.sleep(0.05)
    after = site.dataset()
    assert after.generation > before.generation
    assert not np.array_equal(after["wind"][0, 0], first)
    with pytest.raises(lambdaram.Changed):
        pickle.loads(pickle.dumps(before["wind"]))


def test_reads_wait_without_the_lock(server, elements):
    # The threads of the relay are Python's, and run while this one waits.
    with Relay(int(server.addresses[0].rpartition(":")[2])) as relay:
        wind = lambdaram.open(relay.address, memory="16MiB").dataset()["wind"]
        assert np.array_equal(wind[5:9], elements["wind"][5:9])


def test_an_interrupted_read(server):
    # A program that was started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupted_read(server)
    finally:
        signal.signal(signal.SIGINT, before)


def interrupted_read(server) -> None:
    with Relay(int(server.addresses[0].rpartition(":")[2])) as relay:
        wind = lambdaram.open(relay.address, memory="16MiB", patience=60.0).dataset()["wind"]
        wind[0]
        relay.is_stalled = True
        sent = []
        reading = threading.Event()

        def interrupt() -> None:
            # The relay may hold bytes before there is a read.
            assert reading.wait(60) and relay.holds.wait(60)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        interrupter = threading.Thread(target=interrupt)
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            reading.set()
            wind[23]
        # 200 ms are promised; this machine may be busy.
        assert time.monotonic() - sent[0] < 2
        interrupter.join()
        relay.is_stalled = False
        # The read was given up, and the next one is served.
        assert wind[23].shape == (5, 60, 90)


@pytest.mark.parametrize("is_of_xarray", [False, True])
def test_an_interrupted_opening(is_of_xarray):
    """A node that takes links and says nothing keeps no program from being interrupted."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"lram://127.0.0.1:{silent.getsockname()[1]}/climate"
            taken = []

            def interrupt() -> None:
                taken.append(silent.accept())
                os.kill(os.getpid(), signal.SIGINT)

            interrupter = threading.Thread(target=interrupt)
            interrupter.start()
            with pytest.raises(KeyboardInterrupt):
                if is_of_xarray:
                    xarray.open_dataset(address, engine="lambdaram", memory="16MiB", patience=60.0)
                else:
                    lambdaram.open(address, memory="16MiB", patience=60.0).dataset()
            interrupter.join()
            taken[0][0].close()
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interpreter_ends_during_a_read(server):
    """A thread that waits for a dead node keeps no program from ending."""
    program = f"""
        import lambdaram, socket, threading, time
        listener = socket.create_server(("127.0.0.1", 0))
        address = "lram://127.0.0.1:%d/x" % listener.getsockname()[1]
        site = lambdaram.open(address, memory="16MiB", patience=60.0)
        served = lambdaram.open({server.address()!r}, memory="16MiB").dataset()["wind"]
        threading.Thread(target=site.dataset, daemon=True).start()
        time.sleep(0.3)
        print(served[0].shape)
    """
    ended = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(program)], capture_output=True, timeout=60, text=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "(5, 60, 90)\n", "")


def test_a_closed_site(server, elements):
    with lambdaram.open(server.address(), memory="16MiB", prefetch=False) as site:
        wind = site.dataset()["wind"]
        assert np.array_equal(wind[0], elements["wind"][0])
        assert list(site.links().values()) == ["up"]
        pickled = pickle.dumps(wind)
    assert site.is_closed
    assert np.array_equal(wind[0], elements["wind"][0]), "it is in memory"
    with pytest.raises(lambdaram.Unreachable):
        wind[20]
    with pytest.raises(lambdaram.Unreachable):
        site.dataset()
    assert np.array_equal(pickle.loads(pickled)[20], elements["wind"][20]), "it is another site"
    site.close()


def test_the_end_of_a_program_ends_its_links(climate_file):
    program = """
        import lambdaram, sys, xarray
        array = lambdaram.open(sys.argv[1], memory="16MiB").dataset()["wind"]
        far = xarray.open_dataset(sys.argv[1], engine="lambdaram", memory="4MiB")
        print(array[0].shape, far["wind"][0, 0].values.shape)
    """
    with lambdaram.serve(climate_file) as server:
        command = [sys.executable, "-I", "-c", textwrap.dedent(program), server.address()]
        ended = subprocess.run(command, capture_output=True, timeout=60, text=True)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "(5, 60, 90) (60, 90)\n", "")
        # Links that come back are waited for much longer.
        deadline = time.monotonic() + 15
        while server.status()["links"] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.status()["links"] == 0


def test_a_closed_server(climate_file):
    server = lambdaram.serve(climate_file)
    site = lambdaram.open(server.address(), memory="16MiB", patience=2.0)
    wind = site.dataset()["wind"]
    wind[0, 0]
    server.close()
    with pytest.raises(lambdaram.Unreachable):
        for time_step in range(24):
            wind[time_step]


def write(folder) -> str:
    path = folder / "climate.nc"
    write_climate(path)
    return path

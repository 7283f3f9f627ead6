"""Datasets in files, and servers of them."""

from __future__ import annotations

import gc
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import lambdaram

warnings.filterwarnings("ignore", message="numpy.ndarray size changed")

SHAPE = (24, 5, 60, 90)


@pytest.fixture(scope="session")
def climate_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of NetCDF-3 with coordinates, packed numbers, texts, a scalar and every type."""
    path = tmp_path_factory.mktemp("data") / "climate.nc"
    write_climate(path)
    return path


@pytest.fixture(scope="session")
def server(climate_file: Path) -> Iterator[lambdaram.Server]:
    with lambdaram.serve(climate_file) as server:
        yield server


@pytest.fixture
def site(server: lambdaram.Server) -> Iterator[lambdaram.Site]:
    yield lambdaram.open(server.address(), memory="16MiB")
    gc.collect()


@pytest.fixture
def dataset(site: lambdaram.Site) -> lambdaram.Dataset:
    return site.dataset()


@pytest.fixture(scope="session")
def elements(climate_file: Path) -> dict[str, np.ndarray]:
    """All elements of the file, as netCDF4 reads them."""
    with netCDF4.Dataset(climate_file) as file:
        file.set_auto_mask(False)
        file.set_auto_scale(False)
        return {name: np.array(variable[...]) for name, variable in file.variables.items()}


def write_climate(path: Path, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_DATA") as file:
        file.title = "Winds of a planet"
        file.version = np.int32(3)
        file.levels_hpa = np.array([1000, 500, 100], "f4")
        for name, extent in zip(("time", "level", "lat", "lon"), SHAPE):
            file.createDimension(name, extent)
            variable = file.createVariable(name, "f8", (name,))
            variable[:] = np.arange(extent) * 1.5
        file["time"].units = "hours since 2000-01-01"
        file["lat"].units = "degrees_north"
        wind = file.createVariable("wind", "f4", ("time", "level", "lat", "lon"), fill_value=np.float32(-9999))
        wind.units = "m s-1"
        wind[:] = rng.standard_normal(SHAPE).astype("f4")
        wind[0, 0, 0, :5] = -9999
        ozone = file.createVariable("ozone", "i2", ("time", "lat", "lon"), fill_value=np.int16(-32767))
        ozone.set_auto_maskandscale(False)
        ozone.scale_factor, ozone.add_offset = np.float32(0.25), np.float32(300)
        ozone[:] = rng.integers(-1000, 1000, (24, 60, 90))
        file.createVariable("depth", "f8", ())[...] = 12.5
        file.createDimension("letters", 8)
        names = file.createVariable("names", "S1", ("level", "letters"))
        texts = [b"surface", b"low", b"middle", b"high", b"top"]
        names[:] = np.array([list(text.ljust(8, b"\0").decode()) for text in texts], "S1")
        for code in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"):
            file.createVariable(f"of_{code}", code, ("lat",))[:] = rng.integers(0, 100, SHAPE[2])


class Relay:
    """A relay to a server that can hold everything back."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.is_stalled = False
        #: Something is held back.
        self.holds = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"lram://127.0.0.1:{self.listener.getsockname()[1]}/climate"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.port))
            for source, goal in [(near, far), (far, near)]:
                threading.Thread(target=self.relay, args=(source, goal), daemon=True).start()

    def relay(self, source: socket.socket, goal: socket.socket) -> None:
        with source:
            try:
                while data := source.recv(65536):
                    while self.is_stalled:
                        self.holds.set()
                        time.sleep(0.01)
                    goal.sendall(data)
                goal.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_stalled = False
        # A listener that is closed alone would go on to wait.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

"""The wind shear between two levels over a basin, out of an array that is far away.

    python examples/python/wind_shear.py                          # makes a small planet, and serves it
    python examples/python/wind_shear.py lram://host/merra        # a dataset with u, v (time, level, lat, lon)

Needs the packages lambdaram, netCDF4 (for the planet), numpy and xarray.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import xarray as xr

import lambdaram


def main() -> None:
    parser = argparse.ArgumentParser(description="The wind shear between two levels over a basin.")
    parser.add_argument("address", nargs="?", help="a dataset with u and v [default: a small planet on this machine]")
    parser.add_argument("--levels", nargs=2, type=int, default=(1, 4), metavar="LEVEL", help="[default: 1 4]")
    south_north_west_east = "south, north, west and east [default: 5 35 20 60]"
    parser.add_argument(
        "--basin", nargs=4, type=float, default=(5, 35, 20, 60), metavar="DEGREES", help=south_north_west_east
    )
    options = parser.parse_args()
    if options.address is not None:
        return show(options.address, options.levels, options.basin)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "planet.nc"
        make_planet(file)
        with lambdaram.serve(file) as server:
            show(server.address(), options.levels, options.basin)


def show(address: str, levels: tuple[int, int], basin: tuple[float, float, float, float]) -> None:
    """Prints the mean shear of each time step, and how its elements came."""
    begin = time.perf_counter()
    opened = lambdaram.open(address).dataset()
    planet = xr.open_dataset(opened, engine="lambdaram")
    print(f"opened {address} in {(time.perf_counter() - begin) * 1000:.1f} ms: {dict(planet.sizes)}")

    south, north, west, east = basin
    winds = planet[["u", "v"]].sel(lat=slice(south, north), lon=slice(west, east))
    begin = time.perf_counter()
    for step in range(winds.sizes["time"]):
        at = winds.isel(time=step)
        low, high = (at.isel(level=level).load() for level in levels)
        shear = np.hypot(high.u - low.u, high.v - low.v)
        label = np.datetime_as_string(at.time.values, "h")
        print(f"  {label}  mean {float(shear.mean()):5.2f} m/s  {'#' * int(shear.mean())}")
    print(f"read and computed in {(time.perf_counter() - begin) * 1000:.0f} ms")
    for name in ("u", "v"):
        stats = opened[name].stats()
        print(
            f"  {name}: {stats['ahead_hits']} blocks were here ahead of time, {stats['late_ahead']} were on their way,"
            f" {stats['misses']} were asked for, {stats['hits']} were here again"
        )


def make_planet(file: Path) -> None:
    """A planet with a jet that wanders: 48 hours, six levels, two degrees by three."""
    hour, level = np.arange(48), np.arange(6)
    lat, lon = np.arange(-90, 90.5, 2.0), np.arange(0, 240, 3.0)
    axes = np.meshgrid(hour, level, np.radians(lat), np.radians(lon), indexing="ij", sparse=True)
    phase = axes[3] * 3 - axes[0] / 8
    jet = np.exp(-(((np.degrees(axes[2]) - 25 - 8 * np.sin(phase)) / 12) ** 2))
    u = (5 + 6 * axes[1] * jet).astype("f4")
    v = (2 * axes[1] * np.cos(phase) * jet).astype("f4")
    dims = ("time", "level", "lat", "lon")
    planet = xr.Dataset(
        {"u": (dims, u, {"units": "m s-1"}), "v": (dims, v, {"units": "m s-1"})},
        {
            "time": ("time", hour, {"units": "hours since 2000-01-01"}),
            "level": level.astype("i4"),
            "lat": lat,
            "lon": lon,
        },
    )
    planet.to_netcdf(file, format="NETCDF3_64BIT", engine="netcdf4")


if __name__ == "__main__":
    main()

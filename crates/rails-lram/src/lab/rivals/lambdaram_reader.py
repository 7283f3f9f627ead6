"""LambdaRAM's own package for Python, below xarray: the reads of its Rust reader."""

from importlib.metadata import version

# The import of libraries is not measured. xarray would import dask with its first index and array,
# and the engine when it looks for one; a program that is at work has them.
import dask.array  # noqa: F401
import lambdaram  # noqa: F401
import xarray as xr

from common import Run, columns, plan, rows

xr.backends.list_engines()
run = Run()
far = xr.open_dataset(f"{plan['address']}/{plan['dataset']}", engine="lambdaram", insecure=True)
wind = far[plan["array"]]
run.is_open()
run.steps(lambda step, level: wind[step, level, rows, columns].values)
run.end(f"lambdaram {version('lambdaram')}, xarray {version('xarray')}")

"""LambdaRAM's own package for Python, below xarray: the reads of its Rust reader."""

from importlib.metadata import version

import lambdaram  # noqa: F401  (the import of the library is not measured)
import xarray as xr

from common import Run, columns, plan, rows

run = Run()
far = xr.open_dataset(f"{plan['address']}/{plan['dataset']}", engine="lambdaram", insecure=True)
wind = far[plan["array"]]
run.is_open()
run.steps(lambda step, level: wind[step, level, rows, columns].values)
run.end(f"lambdaram {version('lambdaram')}, xarray {version('xarray')}")

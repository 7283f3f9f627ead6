"""xarray and dask with 16 threads, over zarr-python and fsspec."""

from importlib.metadata import version

import dask
import dask.array as da
import numpy as np
import xarray as xr
import zarr

from common import Run, columns, plan, row_sums, rows, url, weighed

run = Run()
store = zarr.storage.FsspecStore.from_url(url, read_only=True)
names = ["time", "level", "lat", "lon"]
wind = xr.DataArray(da.from_zarr(zarr.open_array(store, mode="r")), dims=names)
run.is_open()
planes = [wind.isel(time=plan["steps"], level=level, lat=rows, lon=columns) for level in plan["levels"]]
shear = ((planes[0] - planes[1]) ** 2).mean(("lat", "lon")) ** 0.5
sums = [plane.data.map_blocks(row_sums, drop_axis=2, dtype=np.uint64, meta=np.empty((0, 0), np.uint64)) for plane in planes]
_, *sums = dask.compute(shear, *sums, scheduler="threads", num_workers=16)
with np.errstate(over="ignore"):
    for count in range(len(plan["steps"])):
        for number, sum in enumerate(sums):
            run.digest += weighed(sum[count], count, number)
run.end(f"xarray {version('xarray')}, dask {version('dask')}, zarr {version('zarr')}")

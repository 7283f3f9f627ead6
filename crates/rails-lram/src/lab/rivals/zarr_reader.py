"""zarr-python over obstore."""

from importlib.metadata import version

import zarr
from obstore.store import HTTPStore
from zarr.storage import ObjectStore

from common import Run, columns, plan, rows, url

run = Run()
store = ObjectStore(HTTPStore.from_url(url, client_options={"allow_http": True}), read_only=True)
if plan["way"] == "open":
    group = zarr.open_group(store, mode="r")
    for name, array in group.arrays():
        if array.ndim == 1:
            run.digest += int(array[...].sum())
    run.is_open()
else:
    array = zarr.open_array(store, mode="r")
    run.is_open()
    run.steps(lambda step, level: array[step, level, rows, columns])
run.end(f"zarr {version('zarr')}, obstore {version('obstore')}")

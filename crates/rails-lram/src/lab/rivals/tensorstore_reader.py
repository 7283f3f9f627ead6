"""TensorStore over HTTP: one read after the other, or all reads asked for first."""

from importlib.metadata import version

import tensorstore as ts

from common import Run, columns, plan, rows

run = Run()
store = {"driver": "http", "base_url": plan["address"], "path": f"/{plan['dataset']}/"}
array = ts.open({"driver": "zarr3", "kvstore": store, "recheck_cached_data": "open"}, open=True, read=True).result()
run.is_open()
if plan["way"] == "all_first":
    asked = {(step, level): array[step, level][rows, columns].read() for step in plan["steps"] for level in plan["levels"]}
    run.steps(lambda step, level: asked.pop((step, level)).result())
else:
    run.steps(lambda step, level: array[step, level][rows, columns].read().result())
run.end(f"tensorstore {version('tensorstore')}")

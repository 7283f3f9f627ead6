"""The plan of a run, and its figures, as the reader of LambdaRAM has them."""

import json
import sys
import time

import numpy as np

plan = json.loads(sys.argv[1])
rows = slice(plan["window"]["rows"]["start"], plan["window"]["rows"]["end"])
columns = slice(plan["window"]["columns"]["start"], plan["window"]["columns"]["end"])
url = f"{plan['address']}/{plan['dataset']}"


def row_sums(plane):
    """The sums of each row's elements, taken as whole numbers."""
    return np.ascontiguousarray(plane, dtype="<f4").view("<u4").sum(axis=-1, dtype=np.uint64)


def weighed(sums, step, number):
    """A part of the digest."""
    weights = np.arange(len(sums), dtype=np.uint64) + np.uint64(1 + number * 1000 + step * 10_000)
    return (sums * weights).sum(dtype=np.uint64)


class Run:
    """The steps of a run, between the opening and the last result."""

    def __init__(self):
        self.begin = time.perf_counter()
        self.opened = None
        self.waits = []
        self.digest = np.uint64(0)
        self.shears = []

    def is_open(self):
        self.opened = time.perf_counter() - self.begin

    def steps(self, read):
        """Calls `read(step, level)` for each plane of the plan."""
        for count, step in enumerate(plan["steps"]):
            asked = time.perf_counter()
            planes = [np.asarray(read(step, level)) for level in plan["levels"]]
            self.waits.append(time.perf_counter() - asked)
            self.result(count, planes)
            if plan["pause"]:
                time.sleep(plan["pause"])

    def result(self, count, planes):
        """Computes the wind shear, and the digest."""
        lower, upper = planes
        self.shears.append(float(np.sqrt(((lower - upper) ** 2).mean())))
        with np.errstate(over="ignore"):
            for number, plane in enumerate(planes):
                self.digest += weighed(row_sums(plane), count, number)

    def end(self, version):
        seconds = time.perf_counter() - self.begin
        print(json.dumps({
            "seconds": seconds, "opened": self.opened, "waits": self.waits, "digest": str(int(self.digest)),
            "version": version,
        }))

"""Rows read by pread out of files that `rclone mount` shows: a program that knows files alone.

It mounts in a mount namespace of its own, so that it is started as one process.
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from common import Run, columns, plan, rows

ROWS, COLUMNS = 361, 540
rclone, offset = sys.argv[2], int(sys.argv[3])
with tempfile.TemporaryDirectory() as folder:
    place, cache = f"{folder}/mount", f"{folder}/cache"
    os.mkdir(place)
    options = ["--read-only", "--vfs-cache-mode", "full", "--cache-dir", cache, "--vfs-read-chunk-size", "1M"]
    options += ["--vfs-read-ahead", "0", "--config", "/dev/null", "-q", "--http-url", plan["address"]]
    mount = subprocess.Popen([rclone, "mount", ":http:", place, *options])
    try:
        deadline = time.monotonic() + 20
        while not os.path.ismount(place):
            if mount.poll() is not None or time.monotonic() > deadline:
                sys.exit("rclone did not mount")
            time.sleep(0.05)
        run = Run()
        files = [os.open(f"{place}/{plan['dataset']}-{step:02}.mapb", os.O_RDONLY) for step in plan["steps"]]
        run.is_open()
        width = columns.stop - columns.start

        def read(step, level):
            file = files[plan["steps"].index(step)]
            begin = offset + 4 * (level * ROWS * COLUMNS + columns.start)
            lines = [os.pread(file, 4 * width, begin + 4 * row * COLUMNS) for row in range(rows.start, rows.stop)]
            return np.frombuffer(b"".join(lines), ">f4").reshape(-1, width).astype("<f4")

        run.steps(read)
        run.end(subprocess.run([rclone, "version"], capture_output=True, text=True).stdout.splitlines()[0])
        for file in files:
            os.close(file)
    finally:
        subprocess.run(["fusermount3", "-u", place], stderr=subprocess.DEVNULL)
        mount.terminate()
        mount.wait()

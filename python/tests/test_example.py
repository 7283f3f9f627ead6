"""The example, run as it is."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/python/wind_shear.py"


def test_the_wind_shear(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    assert "2000-01-01T00  mean" in printed and "2000-01-02T23  mean" in printed
    assert printed.splitlines()[-1].startswith("  v: ")

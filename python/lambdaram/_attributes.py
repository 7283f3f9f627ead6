"""The attributes of datasets and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def values(attributes: list[tuple[str, str | None, Any]]) -> dict[str, Any]:
    """Attributes as netCDF4 has them: texts, one number, or an array of numbers."""
    return {name: _value(code, value) for name, code, value in attributes}


def _value(code: str | None, value: Any) -> Any:
    if code is None:
        return value
    numbers = np.frombuffer(value, np.dtype(code).newbyteorder("<")).astype(code)
    return numbers[0] if numbers.size == 1 else numbers

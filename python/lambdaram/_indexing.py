"""From the keys of numpy's basic indexing to selections."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from ._errors import OutOfBounds


class Selection(NamedTuple):
    """Elements of an array: on each axis a first one, a number of them, and a step of 1 or more."""

    starts: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    #: The slices and indices that turn axes of the selected elements round, and drop others.
    rest: tuple[slice | int, ...]

    def region(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first coordinates and the extents of the smallest box around the elements."""
        sides = zip(self.counts, self.steps)
        return self.starts, tuple((count - 1) * step + 1 if count else 0 for count, step in sides)


def select(key: Any, shape: tuple[int, ...]) -> Selection:
    """The elements that ``array[key]`` means.

    :raises OutOfBounds: for integers beyond an axis, and for too many axes
    :raises TypeError: for keys that are no integers, slices and an ellipsis
    """
    entries = _entries(key, len(shape))
    sides = [_side(entry, extent, axis) for axis, (entry, extent) in enumerate(zip(entries, shape))]
    starts, counts, steps, rest = zip(*sides) if sides else ((), (), (), ())
    return Selection(starts, counts, steps, rest)


def _entries(key: Any, rank: int) -> list[Any]:
    """An integer or a slice for each axis."""
    entries = list(key) if isinstance(key, tuple) else [key]
    ellipses = [place for place, entry in enumerate(entries) if entry is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    for entry in entries:
        if entry is None:
            raise TypeError("a new axis (None) is made of the result: array[...][None]")
        if isinstance(entry, (bool, np.bool_)) or not (
            entry is Ellipsis or isinstance(entry, slice) or _is_integer(entry)
        ):
            raise TypeError(
                f"an array is indexed by integers, slices and an ellipsis, and not by {type(entry).__name__};"
                " xarray's engine `lambdaram` takes lists and arrays too"
            )
    given = len(entries) - len(ellipses)
    if given > rank:
        raise OutOfBounds(f"too many indices: the array has {rank} axes, and {given} are given")
    place = ellipses[0] if ellipses else len(entries)
    return entries[:place] + [slice(None)] * (rank - given) + entries[place + 1 :]


def _is_integer(entry: Any) -> bool:
    try:
        operator.index(entry)
    except TypeError:
        return False
    return True


def _side(entry: Any, extent: int, axis: int) -> tuple[int, int, int, slice | int]:
    """Start, count, step and rest of one axis."""
    if isinstance(entry, slice):
        chosen = range(*entry.indices(extent))
        if not chosen:
            return min(chosen.start, extent) if chosen.start > 0 else 0, 0, 1, slice(None)
        if chosen.step < 0:
            return chosen[-1], len(chosen), -chosen.step, slice(None, None, -1)
        return chosen.start, len(chosen), chosen.step, slice(None)
    index = operator.index(entry)
    place = index + extent if index < 0 else index
    if not 0 <= place < extent:
        raise OutOfBounds(f"index {index} is out of bounds for axis {axis} with size {extent}")
    return place, 1, 1, 0

"""Arrays."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _lambdaram
from ._attributes import values
from ._errors import Error
from ._indexing import Selection, select

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._opening import Opening


@dataclass(frozen=True)
class Explanation:
    """The effect that a read would have."""

    #: The extents of the blocks.
    block_shape: tuple[int, ...]
    #: The region that has blocks of its own, if the blocks are those of a view.
    view: tuple[slice, ...] | None
    #: The region of each block, and whether it is in the memory of this process.
    blocks: list[tuple[tuple[slice, ...], bool]]
    #: The size of the selected elements in bytes.
    wanted_bytes: int
    #: The size of the blocks that are not in memory, in bytes.
    missing_bytes: int
    #: The pattern of the reads so far, such as ``sequential``.
    pattern: str


class Array:
    """An array of a dataset, which is read by numpy's basic indexing.

    Reads by several threads go on at the same time. The site watches them, and fetches the
    blocks that it expects next.
    """

    def __init__(self, dataset: Dataset, array: _lambdaram.Array) -> None:
        self._dataset = dataset
        self._array = array
        self._shape: tuple[int, ...] = array.shape
        self._dtype = np.dtype(array.type_code)

    @property
    def dataset(self) -> Dataset:
        """The dataset."""
        return self._dataset

    @cached_property
    def name(self) -> str:
        """The name."""
        return self._array.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements, in this machine's order of bytes."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._shape)

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return self.size * self._dtype.itemsize

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """The name of each axis; an axis without one is ``NAME_AXIS``, such as ``ozone_0``."""
        names = enumerate(self._array.dimension_names)
        return tuple(f"{self.name}_{axis}" if name is None else name for axis, name in names)

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """The extents of the blocks in which the array is fetched."""
        return self._array.block_shape

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """The attributes."""
        return values(self._array.attributes)

    @cached_property
    def fill_value(self) -> Any:
        """The element of places that are not stored; ``None`` is unknown, and they are zero."""
        element = self._array.fill_value
        return None if element is None else np.frombuffer(element, self._dtype.newbyteorder("<")).astype(self._dtype)[0]

    def __getitem__(self, key: Any) -> Any:
        """Reads elements, by integers, slices (also with negative steps) and an ellipsis.

        :raises Changed: if the source has changed since the dataset was opened
        :raises SourceError: if files are missing or damaged
        :raises Unreachable: if no node answers
        """
        selection = select(key, self._shape)
        recording = getattr(_recording, "regions", None)
        if recording is None:
            elements = self._array.read(selection.starts, selection.counts, selection.steps)
            elements = elements.view(self._dtype).reshape(selection.counts)
        else:
            recording.append((self, selection))
            elements = np.broadcast_to(np.zeros((), self._dtype), selection.counts)
        return elements[selection.rest]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array that has to be read cannot be had without a copy")
        elements = np.asarray(self[...])
        return elements if dtype is None else elements.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of an array without axes")
        return self._shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def expect(self, keys: Iterable[Any]) -> int:
        """Announces the reads that will come, so that their blocks are fetched in this order.

        The keys take the place of those that were announced before. Keys without elements are left
        out.

        :returns: the number of keys that were announced
        """
        selections = (select(key, self._shape) for key in keys)
        regions = [selection.region() for selection in selections if 0 not in selection.counts]
        self._array.tell(regions)
        return len(regions)

    def warm(self, key: Any = ...) -> int:
        """Has the nodes that serve keep the blocks of a region ready in their memory.

        It does not wait for them, and does nothing for files of this machine.

        :returns: the number of blocks
        """
        return self._array.warm(*select(key, self._shape).region())

    def explain(self, key: Any = ...) -> Explanation:
        """Says which blocks a read would take, and which of them are in memory."""
        selection = select(key, self._shape)
        explained = self._array.explain(selection.starts, selection.counts, selection.steps)
        block_shape, view, blocks, wanted_bytes, missing_bytes, pattern = explained
        return Explanation(
            block_shape=tuple(block_shape),
            view=None if view is None else _slices(*view),
            blocks=[(_slices(*bounds), is_cached) for bounds, is_cached in blocks],
            wanted_bytes=wanted_bytes,
            missing_bytes=missing_bytes,
            pattern=pattern,
        )

    def stats(self) -> dict[str, int]:
        """Counters of the array's blocks, those of its views among them: empty before the first read.

        A block that is read counts as one of ``hits`` (it was here), ``ahead_hits`` (it was here
        ahead of time, at its first use), ``late_ahead`` (it was on its way) and ``misses``.
        """
        site = self._dataset.site
        names = {"application": site._opening.application, "dataset": self._dataset.name, "array": self.name}
        counters: Counter[str] = Counter()
        for budget in site.status()["budgets"]:
            if all(budget[key] == name for key, name in names.items()):
                counters.update({key: count for key, count in budget.items() if key not in names})
        return dict(counters)

    @property
    def place(self) -> tuple[Opening, str, int, str]:
        """How the site is opened, the dataset with its generation, and the array: all that finds it again."""
        dataset = self._dataset
        return dataset.site._opening, dataset.name, dataset.generation, self.name

    def reopened(self) -> Array:
        """The same array by links of this process, in the child of a fork."""
        from ._shared import array

        return array(*self.place)

    def __reduce__(self) -> tuple[Any, ...]:
        from ._shared import array

        return array, self.place

    def __repr__(self) -> str:
        sides = ", ".join(f"{name}: {extent}" for name, extent in zip(self.dims, self._shape))
        return f"<lambdaram.Array {self._dataset.name}/{self.name} ({sides}) {self._dtype}>"


@contextmanager
def recorded() -> Iterator[list[tuple[Array, Selection]]]:
    """Lists the selections that this thread reads, instead of reading them: their elements are zeros."""
    if getattr(_recording, "regions", None) is not None:
        raise Error("reads of this thread are being listed already")
    _recording.regions = []
    try:
        yield _recording.regions
    finally:
        _recording.regions = None


def _slices(starts: list[int], extents: list[int]) -> tuple[slice, ...]:
    return tuple(slice(start, start + extent) for start, extent in zip(starts, extents))


_recording = threading.local()

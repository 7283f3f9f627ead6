"""Datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import _lambdaram
from ._array import Array
from ._attributes import values

if TYPE_CHECKING:
    from ._site import Site


class Dataset(Mapping[str, Array]):
    """A dataset, whose arrays are its items.

    It is of one generation: if its source changes, reads raise :class:`lambdaram.Changed`, and
    :meth:`lambdaram.Site.dataset` opens it as it is then.
    """

    def __init__(self, site: Site, dataset: _lambdaram.Dataset) -> None:
        self._site = site
        self._dataset = dataset
        self._arrays: dict[str, Array | None] = dict.fromkeys(dataset.array_names)

    @property
    def site(self) -> Site:
        """The site."""
        return self._site

    @cached_property
    def name(self) -> str:
        """The name."""
        return self._dataset.name

    @cached_property
    def generation(self) -> int:
        """The number of the source's state: a source that has changed has a higher one."""
        return self._dataset.generation

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the whole."""
        return values(self._dataset.attributes)

    @property
    def arrays(self) -> Mapping[str, Array]:
        """The arrays by name."""
        return self

    @cached_property
    def dims(self) -> dict[str, int]:
        """The extent of each dimension. Arrays may differ in one; then it is that of the first."""
        dims: dict[str, int] = {}
        for array in self.values():
            for name, extent in zip(array.dims, array.shape):
                dims.setdefault(name, extent)
        return dims

    def array(self, name: str) -> Array:
        """A reader of an array that nobody shares, so that its reads have a pattern of their own.

        The item of that name is one reader for all who ask for it.

        :raises NotFound: if there is no array of that name
        """
        return Array(self, self._dataset.array(name))

    def __getitem__(self, name: str) -> Array:
        array = self._arrays.get(name)
        if array is None:
            # A name that is none raises NotFound. Two threads may make a reader each, and one stays.
            array = self._arrays[name] = self.array(name)
        return array

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> tuple[Any, ...]:
        from ._shared import dataset

        return dataset, (self._site._opening, self.name, self.generation)

    def __repr__(self) -> str:
        lines = [f"<lambdaram.Dataset {self.name}: {', '.join(f'{name} {n}' for name, n in self.dims.items())}>"]
        for name, array in self.items():
            lines.append(f"    {name} ({', '.join(array.dims)}) {array.dtype}")
        return "\n".join(lines)

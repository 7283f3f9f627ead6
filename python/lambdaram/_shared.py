"""Sites that several users of one process share: those of xarray, of zarr, and of pickles."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING

from ._errors import Changed
from ._opening import Opening

if TYPE_CHECKING:
    from ._array import Array
    from ._dataset import Dataset
    from ._site import Site


class _Shared:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sites: weakref.WeakValueDictionary[Opening, Site] = weakref.WeakValueDictionary()
        # Tasks of a worker come one by one, each as a pickle: these keep their site open between
        # them.
        self.recent: deque[Dataset] = deque(maxlen=4)


def site(opening: Opening) -> Site:
    """The site of this process that was opened so."""
    from ._site import Site

    with _shared.lock:
        found = _shared.sites.get(opening)
        if found is None or found.is_closed:
            found = Site(opening)
            _shared.sites[opening] = found
        return found


def dataset(opening: Opening, name: str, generation: int) -> Dataset:
    """A dataset of one generation."""
    of = site(opening)
    found = of._datasets.get((name, generation))
    if found is None:
        found = of.dataset(name)
        if found.generation != generation:
            raise Changed(f"the source of `{name}` has changed since it was opened")
    if found not in _shared.recent:
        _shared.recent.append(found)
    return found


def array(opening: Opening, dataset_name: str, generation: int, name: str) -> Array:
    """An array of a dataset of one generation."""
    return dataset(opening, dataset_name, generation)[name]


def _forget() -> None:
    """Begins anew in the child of a fork, whose lock may be held by a thread that is not there."""
    global _shared
    _shared = _Shared()


_shared = _Shared()
os.register_at_fork(after_in_child=_forget)

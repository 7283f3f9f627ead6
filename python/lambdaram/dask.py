"""Dask's order of tasks as the order in which blocks are fetched.

    with lambdaram.dask.schedule():
        result = dataset.mean("time").compute()

A graph names its reads before it is run, and dask's own order of its tasks says when they come. The
arrays are told of it, and fetch ahead in that order instead of guessing. It is for the schedulers
of this process: threads, and one task at a time. Workers of a cluster read by themselves, and
find patterns in their reads.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np
from dask._task_spec import (
    Alias,
    DataNode,
    GraphNode,
    NestedContainer,
    Task,
    TaskRef,
    _execute_subgraph,
    convert_legacy_graph,
)
from dask.array.core import getter, getter_inline, getter_nofancy
from dask.base import is_dask_collection, optimize
from dask.callbacks import Callback
from dask.order import order

from ._array import Array, recorded

__all__ = ["hint", "schedule"]


def hint(*collections: Any) -> int:
    """Announces the reads of collections, such as arrays of dask or datasets of xarray.

    :returns: the number of regions that were announced
    """
    graph: dict[Any, Any] = {}
    for collection in optimize(*collections):
        if is_dask_collection(collection):
            graph.update(collection.__dask_graph__())
    return _announce(graph)


class schedule(Callback):
    """Announces the reads of each graph that is computed within this context."""

    def __init__(self) -> None:
        super().__init__(start=lambda graph: _announce(graph))


def _announce(graph: Mapping[Any, Any]) -> int:
    """Tells the arrays of a graph the regions that it will read, and says how many these are."""
    arrays = _regions(graph)
    for array, regions in arrays.items():
        array._array.tell(regions[:MAX_TOLD])
    return sum(map(len, arrays.values()))


def _regions(graph: Mapping[Any, Any]) -> dict[Array, list[Any]]:
    """The regions of each of our arrays that a graph reads, in the order of its tasks."""
    graph = convert_legacy_graph(dict(graph))
    priorities = order(graph)
    regions: dict[Array, list[Any]] = {}
    for key in sorted(graph, key=priorities.__getitem__):
        for array, selection in _reads(graph[key], graph):
            if 0 not in selection.counts:
                regions.setdefault(array, []).append(selection.region())
    return regions


def _reads(node: Any, graph: Mapping[Any, Any]) -> Iterator[Any]:
    """The reads of a task, found by doing it with arrays that only take notes."""
    for task, values in _getters(node, graph):
        source, *arguments = [_value(argument, values) for argument in task.args]
        if not _is_ours(source):
            continue
        with recorded() as reads:
            # Some wrappers of xarray read as late as here.
            np.asarray(task.func(source, *arguments))
        yield from reads


def _getters(node: Any, known: Mapping[Any, Any]) -> Iterator[tuple[Task, Mapping[Any, Any]]]:
    """The tasks within a task that read a source, and the nodes that they may refer to."""
    children: Iterable[Any] = ()
    if isinstance(node, Task):
        if node.func in GETTERS:
            yield node, known
        elif node.func is _execute_subgraph:
            # A fused task: its inner tasks know each other and its arguments by their keys.
            inner, _, names, *given = node.args
            bound = {name: _value(argument, known) for name, argument in zip(names, given)}
            known = ChainMap(inner, bound, cast("dict[Any, Any]", known))
            children = inner.values()
        else:
            children = (*node.args, *node.kwargs.values())
    elif isinstance(node, (list, tuple)):
        children = node
    for child in children:
        yield from _getters(child, known)


def _value(argument: Any, known: Mapping[Any, Any]) -> Any:
    """The value of an argument: that of a node which is no computation."""
    for _ in range(MAX_ALIASES):
        match argument:
            case TaskRef():
                argument = known.get(argument.key)
            case Alias():
                argument = known.get(argument.target)
            case DataNode():
                return argument.value
            case NestedContainer() if not argument.dependencies:
                return argument()
            case GraphNode():
                return None
            case _:
                return argument
    return None


def _is_ours(source: Any) -> bool:
    """Whether an array of LambdaRAM lies below the wrappers of xarray."""
    for _ in range(MAX_WRAPPERS):
        if isinstance(source, Array):
            return True
        source = getattr(source, "array", None)
    return False


GETTERS = (getter, getter_nofancy, getter_inline)
#: The most regions that an array takes at a time.
MAX_TOLD = 1 << 18
MAX_ALIASES = 16
MAX_WRAPPERS = 16

"""Serving the files of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from . import _lambdaram
from ._opening import secret_bytes


def serve(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    listen: str | Iterable[str] = "127.0.0.1:0",
    *,
    memory: int | str = "256MiB",
    secret: bytes | str | None = None,
    secret_file: str | os.PathLike[str] | None = None,
    insecure: bool = False,
) -> Server:
    """Serves the datasets of files from this process, until the server is closed or forgotten.

    :param paths: dataset files, files of NetCDF-3, Zarr folders, folders of these
    :param listen: such as ``10.0.0.1:5726`` and ``celeritas://10.0.0.1:5726``; port 0 is any
    :param memory: the memory for blocks
    :param secret: the secret of both ends, at least 16 bytes
    :param secret_file: the file with the secret; a newline at its end does not count
    :param insecure: whoever reaches an address of this machine may read
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    server = _lambdaram.serve(
        [os.fspath(path) for path in paths],
        listen=[listen] if isinstance(listen, str) else list(listen),
        memory=memory,
        secret=secret_bytes(secret, secret_file),
        insecure=insecure,
    )
    return Server(server)


class Server:
    """A server of this process; as a context manager, it is closed at the end."""

    def __init__(self, server: _lambdaram.Server) -> None:
        self._server = server

    @property
    def addresses(self) -> list[str]:
        """The addresses for :func:`lambdaram.open`, each without a dataset."""
        return self._server.addresses

    @property
    def datasets(self) -> list[str]:
        """The names of the datasets."""
        return self._server.datasets

    def address(self, dataset: str | None = None) -> str:
        """The first address, with a dataset: the only one, if none is named."""
        names = self.datasets
        if dataset is None and len(names) == 1:
            dataset = names[0]
        return f"{self.addresses[0]}/{dataset or ''}"

    def close(self) -> None:
        """Ends the links."""
        self._server.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lambdaram.Server {', '.join(self.addresses)}: {', '.join(self.datasets)}>"

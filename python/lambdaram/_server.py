"""Serving the files of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from . import _lambdaram, _security
from ._opening import path_text


def serve(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    listen: str | Iterable[str] = "127.0.0.1:0",
    *,
    memory: int | str = "256MiB",
    secret: bytes | str | None = None,
    secret_file: str | os.PathLike[str] | None = None,
    encrypt: bool = True,
    insecure: bool = False,
    tls_cert: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    tls_client_ca: str | os.PathLike[str] | None = None,
    rate: int | str | None = None,
    window: int | str = "32MiB",
) -> Server:
    """Serves the datasets of files from this process, until the server is closed or forgotten.

    :param paths: dataset files, files of NetCDF-3, Zarr folders, folders of these
    :param listen: such as ``10.0.0.1:5726`` and ``celeritas://10.0.0.1:5726``; port 0 is any
    :param memory: the memory for blocks
    :param secret: the secret of both ends, at least 16 bytes
    :param secret_file: the file with the secret; a newline at its end does not count
    :param encrypt: links are encrypted with keys made of the secret; ``False`` at both ends leaves it
        to say who may join, and anyone on the path reads the bytes and can alter them
    :param insecure: whoever reaches an address of this machine may read
    :param tls_cert: the file with the server's certificate and those that it was signed by (PEM):
        links are encrypted by TLS 1.3
    :param tls_key: the file with the certificate's private key (PEM)
    :param tls_client_ca: the file with the authorities (PEM) of whose certificates a client has to
        show one; without it, any client may read
    :param rate: the rate at which the server sends over Celeritas, in bits a second or such as
        ``"500mbit"``, on a path that no other sender uses; without it, the rate is searched for
    :param window: the bytes that may be on their way over one link

    Where no option says how links are protected, the environment variable ``RAILS_SECRET`` has the
    secret, if it is set.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    security = _security.of_server(
        secret=secret,
        secret_file=path_text(secret_file),
        encrypt=encrypt,
        insecure=insecure,
        tls_cert=path_text(tls_cert),
        tls_key=path_text(tls_key),
        tls_client_ca=path_text(tls_client_ca),
    )
    server = _lambdaram.serve(
        [os.fspath(path) for path in paths],
        listen=[listen] if isinstance(listen, str) else list(listen),
        memory=memory,
        security=security,
        rate=rate,
        window=window,
    )
    return Server(server, None if security is None else security.key_pin)


class Server:
    """A server of this process; as a context manager, it is closed at the end."""

    def __init__(self, server: _lambdaram.Server, key_pin: str | None) -> None:
        self._server = server
        self._key_pin = key_pin

    @property
    def addresses(self) -> list[str]:
        """The addresses for :func:`lambdaram.open`, each without a dataset."""
        return self._server.addresses

    @property
    def datasets(self) -> list[str]:
        """The names of the datasets."""
        return self._server.datasets

    @property
    def key_pin(self) -> str | None:
        """The key of the server's certificate, for ``tls_pin=``; ``None`` without TLS."""
        return self._key_pin

    def address(self, dataset: str | None = None) -> str:
        """The first address, with a dataset: the only one, if none is named."""
        names = self.datasets
        if dataset is None and len(names) == 1:
            dataset = names[0]
        return f"{self.addresses[0]}/{dataset or ''}"

    def status(self) -> dict[str, Any]:
        """The figures of the memory of the node that serves, as :meth:`lambdaram.Site.status`; empty once it is closed.

        ``links`` is the number of links that it serves.
        """
        return self._server.status() or {}

    def close(self) -> None:
        """Ends the links."""
        self._server.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lambdaram.Server {', '.join(self.addresses)}: {', '.join(self.datasets)}>"

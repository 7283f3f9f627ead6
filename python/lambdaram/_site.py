"""Sites: where datasets are."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _lambdaram
from ._dataset import Dataset
from ._errors import NotFound
from ._opening import Opening, path_text


class DatasetEntry(NamedTuple):
    """A dataset in the list of a site."""

    name: str
    #: The number of arrays.
    arrays: int
    #: The size of all elements in bytes.
    bytes: int


def open(
    address: str | os.PathLike[str],
    *,
    memory: int | str = "256MiB",
    application: str = "default",
    secret: bytes | str | None = None,
    secret_file: str | os.PathLike[str] | None = None,
    encrypt: bool = True,
    insecure: bool = False,
    tls_ca: str | os.PathLike[str] | None = None,
    tls_name: str | None = None,
    tls_pin: str | None = None,
    tls_cert: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    rate: int | str | None = None,
    prefetch: bool = True,
    presend: bool = False,
    views: bool = True,
    window: int | str = "32MiB",
    patience: float = 10.0,
) -> Site:
    """Opens the site of an address.

    :param address: nodes that serve, such as ``lram://host/merra`` (a dataset),
        ``lram://host:7000`` (all of a node), ``lram://10.0.0.1+10.0.1.1/merra`` (a lane to each
        address), ``lram://east,west/merra`` (two nodes with copies) and
        ``lram+celeritas://host/merra``; or files of this machine: a dataset file, a file of
        NetCDF-3, a Zarr folder, a folder of these
    :param memory: the memory for blocks, in bytes or such as ``"1GiB"``, which is taken at once
    :param application: blocks of each application have a budget of their own on nodes that serve
    :param secret: the secret of both ends, at least 16 bytes, by which they know each other
    :param secret_file: the file with the secret; a newline at its end does not count
    :param encrypt: links are encrypted with keys made of the secret; ``False`` at both ends leaves it
        to say who may join, and anyone on the path reads the bytes and can alter them
    :param insecure: links to other machines need no protection
    :param tls_ca: the file with the authorities (PEM) of which one has signed the server's
        certificate: links are encrypted by TLS 1.3
    :param tls_name: the name or address that the server's certificate is for
    :param tls_pin: the server's key, as it tells it (SHA-256, hexadecimal or base64): links are
        encrypted by TLS 1.3
    :param tls_cert: the file with this end's certificate (PEM), for a server that asks for one
    :param tls_key: the file with its private key (PEM)
    :param rate: the rate at which this end sends over Celeritas, in bits a second or such as
        ``"500mbit"``, on a path that no other sender uses; without it, the rate is searched for
    :param prefetch: blocks are fetched before they are asked for
    :param presend: a node that serves alone sends blocks before they are asked for, instead
    :param views: a region that is read again and again gets blocks of its own, so that no byte
        beside it travels
    :param window: the bytes that may be on their way over one link: twice its rate times its round
        trip is enough
    :param patience: how many seconds blocks wait for a node that does not answer

    :raises AddressError: if the text is no address
    :raises OptionError: if an option has no such value
    :raises NotFound: if there are no such files

    Links to other machines are protected by a secret or by TLS, or `insecure`. Where no option says
    so, the environment variable ``RAILS_SECRET`` has the secret, if it is set. TLS takes `tls_ca`
    with `tls_name`, or `tls_pin`.

    That no node answers is no error here, but one of the first question.
    """
    return Site(
        Opening(
            address=os.fspath(address),
            memory=memory,
            application=application,
            secret=secret.encode() if isinstance(secret, str) else secret,
            secret_file=path_text(secret_file),
            encrypt=encrypt,
            insecure=insecure,
            tls_ca=path_text(tls_ca),
            tls_name=tls_name,
            tls_pin=tls_pin,
            tls_cert=path_text(tls_cert),
            tls_key=path_text(tls_key),
            rate=rate,
            prefetch=prefetch,
            presend=presend,
            views=views,
            window=window,
            patience=patience,
        )
    )


class Site:
    """The datasets at one address, and the memory in which this process keeps the blocks that it reads.

    The memory is given back with the last of the site's datasets and arrays. A pickled site is
    opened again by its address, once for a process.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._site = opening.open()
        self._is_closed = False
        self._datasets: weakref.WeakValueDictionary[tuple[str, int], Dataset] = weakref.WeakValueDictionary()
        _open_sites.add(self)

    @property
    def address(self) -> str:
        """The address, in full."""
        return self._site.address

    def datasets(self) -> list[DatasetEntry]:
        """The datasets that this program may read."""
        return [DatasetEntry(*entry) for entry in self._site.datasets()]

    def dataset(self, name: str | None = None) -> Dataset:
        """Opens a dataset, as it is now.

        :param name: the name; without one, the dataset that the address names, or the only one
        :raises NotFound: if there is none of that name
        """
        return self._dataset(name, lambda: None)

    def _dataset(self, name: str | None, meanwhile: Callable[[], None]) -> Dataset:
        """Opens a dataset, and does something else while the node is asked for it."""
        if name is None:
            name = self._site.dataset_name or self._only_name()
        asked = self._site.ask(name)
        meanwhile()
        dataset = Dataset(self, asked.wait())
        return self._datasets.setdefault((dataset.name, dataset.generation), dataset)

    def __getitem__(self, name: str) -> Dataset:
        return self.dataset(name)

    def status(self) -> dict[str, Any]:
        """The figures of this process's memory, in slots, and the counters of its reads."""
        return self._site.status()

    def links(self) -> dict[str, str]:
        """The nodes that serve, and how their links are. Empty for files of this machine."""
        return dict(self._site.links())

    def close(self) -> None:
        """Ends the links to the nodes that serve, and waits until they have ended them, too, for three seconds at most.

        Afterwards nothing can be read but what is in memory. The end of the program closes all
        sites; a node waits half a minute for the links of one that is killed to come back.
        """
        self._is_closed = True
        _open_sites.discard(self)
        _lambdaram.close([self._site])

    @property
    def is_closed(self) -> bool:
        """Whether the site was closed."""
        return self._is_closed

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _only_name(self) -> str:
        names = [entry.name for entry in self.datasets()]
        if len(names) == 1:
            return names[0]
        has = f"it has {', '.join(names)}" if names else "it has none"
        raise NotFound(f"`{self.address}` names no dataset, and {has}")

    def __reduce__(self) -> tuple[Any, ...]:
        from ._shared import site

        return site, (self._opening,)

    def __repr__(self) -> str:
        return f"<lambdaram.Site {self._opening.address}>"


def _close_all() -> None:
    _lambdaram.close([site._site for site in _open_sites])


_open_sites: weakref.WeakSet[Site] = weakref.WeakSet()
atexit.register(_close_all)

"""How a site is opened: its address, and the options."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields

from . import _lambdaram, _security


@dataclass(frozen=True)
class Opening:
    """An address of a site, and the options with which it is opened.

    :func:`lambdaram.open` explains them.
    """

    address: str
    memory: int | str = "256MiB"
    application: str = "default"
    secret: bytes | None = field(default=None, repr=False)
    secret_file: str | None = None
    encrypt: bool = True
    insecure: bool = False
    tls_ca: str | None = None
    tls_name: str | None = None
    tls_pin: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    rate: int | str | None = None
    prefetch: bool = True
    presend: bool = False
    views: bool = True
    window: int | str = "32MiB"
    patience: float = 10.0

    def __post_init__(self) -> None:
        for name in PATHS:
            object.__setattr__(self, name, path_text(getattr(self, name)))
        if isinstance(self.secret, str):
            object.__setattr__(self, "secret", self.secret.encode())

    def open(self) -> _lambdaram.Site:
        """Opens the site."""
        return _lambdaram.open(
            self.address,
            memory=self.memory,
            application=self.application,
            security=_security.of_reader(
                secret=self.secret,
                secret_file=self.secret_file,
                encrypt=self.encrypt,
                insecure=self.insecure,
                tls_ca=self.tls_ca,
                tls_name=self.tls_name,
                tls_pin=self.tls_pin,
                tls_cert=self.tls_cert,
                tls_key=self.tls_key,
            ),
            rate=self.rate,
            prefetch=self.prefetch,
            presend=self.presend,
            views=self.views,
            window=self.window,
            patience=self.patience,
        )

    def __getstate__(self) -> dict[str, object]:
        if self.secret is not None:
            raise TypeError(
                "a secret is not pickled: open the site with secret_file=, which is read again where the pickle is,"
                f" or with {_security.VARIABLE} in the environment there"
            )
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)


def path_text(path: str | os.PathLike[str] | None) -> str | None:
    """A path as a text."""
    return None if path is None else os.fspath(path)


#: The fields that may be given as paths.
PATHS = ("address", "secret_file", "tls_ca", "tls_cert", "tls_key")

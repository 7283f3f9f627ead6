"""How a site is opened: its address, and the options."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields

from . import _lambdaram


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
    insecure: bool = False
    prefetch: bool = True
    views: bool = True
    window: int | str = "32MiB"
    patience: float = 10.0

    def __post_init__(self) -> None:
        for name in ("address", "secret_file"):
            path = getattr(self, name)
            if path is not None and not isinstance(path, str):
                object.__setattr__(self, name, os.fspath(path))
        if isinstance(self.secret, str):
            object.__setattr__(self, "secret", self.secret.encode())

    def open(self) -> _lambdaram.Site:
        """Opens the site."""
        return _lambdaram.open(
            self.address,
            memory=self.memory,
            application=self.application,
            secret=secret_bytes(self.secret, self.secret_file),
            insecure=self.insecure,
            prefetch=self.prefetch,
            views=self.views,
            window=self.window,
            patience=self.patience,
        )

    def __getstate__(self) -> dict[str, object]:
        if self.secret is not None:
            raise TypeError(
                "a secret is not pickled: open the site with secret_file=, which is read again where the pickle is"
            )
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)


def secret_bytes(secret: bytes | str | None, secret_file: str | os.PathLike[str] | None) -> bytes | None:
    """The secret itself, or that in the file, whose last newline does not count."""
    if secret is not None and secret_file is not None:
        from ._errors import OptionError

        raise OptionError("there are two secrets: secret= and secret_file=")
    if secret_file is not None:
        with open(secret_file, "rb") as file:
            return file.read().removesuffix(b"\n").removesuffix(b"\r")
    return secret.encode() if isinstance(secret, str) else secret

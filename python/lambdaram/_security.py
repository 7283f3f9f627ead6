"""How links are protected: by a secret of both ends, by TLS, or not at all."""

from __future__ import annotations

import os
import stat
import warnings

from . import _lambdaram
from ._errors import OptionError

#: The environment variable with the secret, where no option says how links are protected.
VARIABLE = "RAILS_SECRET"
#: A longer file was chosen by mistake.
MAX_SECRET_BYTES = 64 << 10


def of_reader(
    *,
    secret: bytes | str | None,
    secret_file: str | None,
    encrypt: bool,
    insecure: bool,
    tls_ca: str | None,
    tls_name: str | None,
    tls_pin: str | None,
    tls_cert: str | None,
    tls_key: str | None,
) -> _lambdaram.Security | None:
    """The protection of the end that connects; ``None`` leaves it to the address.

    :raises OptionError: for a file that is not there or of no use, for two answers to the question,
        and for half of one
    """
    _both("tls_ca", tls_ca, "tls_name", tls_name)
    _both("tls_cert", tls_cert, "tls_key", tls_key)
    answers = {"tls_ca": tls_ca is not None, "tls_pin": tls_pin is not None}
    chosen = _chosen(answers, secret, secret_file, encrypt, insecure)
    if chosen not in answers:
        if tls_cert is not None:
            raise OptionError(
                "tls_cert says who this end is, and not whom it trusts: give tls_ca and tls_name, or tls_pin, besides"
            )
        return _without_tls(chosen, secret, secret_file, encrypt)
    return _lambdaram.Security.tls_client(
        None if tls_ca is None or tls_name is None else (_read("tls_ca", tls_ca), tls_name),
        tls_pin,
        None if tls_cert is None or tls_key is None else _identity(tls_cert, tls_key),
    )


def of_server(
    *,
    secret: bytes | str | None,
    secret_file: str | None,
    encrypt: bool,
    insecure: bool,
    tls_cert: str | None,
    tls_key: str | None,
    tls_client_ca: str | None,
) -> _lambdaram.Security | None:
    """The protection of the end that listens; ``None`` leaves it to the address.

    :raises OptionError: as for :func:`of_reader`
    """
    _both("tls_cert", tls_cert, "tls_key", tls_key)
    answers = {"tls_cert": tls_cert is not None}
    chosen = _chosen(answers, secret, secret_file, encrypt, insecure)
    if tls_cert is not None and tls_key is not None:
        authorities = None if tls_client_ca is None else _read("tls_client_ca", tls_client_ca)
        return _lambdaram.Security.tls_server(_identity(tls_cert, tls_key), authorities)
    if tls_client_ca is not None:
        raise OptionError("tls_client_ca takes tls_cert and tls_key besides")
    return _without_tls(chosen, secret, secret_file, encrypt)


def _chosen(
    answers: dict[str, bool], secret: bytes | str | None, secret_file: str | None, encrypt: bool, insecure: bool
) -> str | None:
    """The option that says how links are protected, if one does."""
    answers = answers | {
        "secret": secret is not None,
        "secret_file": secret_file is not None,
        "insecure": insecure,
    }
    given = [name for name, is_given in answers.items() if is_given]
    if len(given) > 1:
        raise OptionError(f"there are several answers to how links are protected: {' and '.join(given)}; give one")
    chosen = given[0] if given else None
    has_secret = chosen in ("secret", "secret_file") or (chosen is None and VARIABLE in os.environ)
    if not encrypt and not has_secret:
        raise OptionError(f"encrypt=False goes with a secret: give secret_file, or set {VARIABLE}")
    return chosen


def _without_tls(
    chosen: str | None, secret: bytes | str | None, secret_file: str | None, encrypt: bool
) -> _lambdaram.Security | None:
    if chosen == "insecure":
        return _lambdaram.Security.insecure()
    if secret_file is not None:
        source, content = (
            f"secret_file {secret_file}",
            _without_newline(_read("secret_file", secret_file, private=True)),
        )
    elif secret is not None:
        source, content = "secret", secret.encode() if isinstance(secret, str) else secret
    elif VARIABLE in os.environ:
        source, content = VARIABLE, _without_newline(os.environb[VARIABLE.encode()])
    else:
        return None
    if len(content) > MAX_SECRET_BYTES:
        raise OptionError(f"{source}: it is longer than {MAX_SECRET_BYTES} bytes, which no secret is")
    try:
        return _lambdaram.Security.of_secret(content, encrypt)
    except OptionError as error:
        raise OptionError(f"{source}: {error}") from None


def _without_newline(secret: bytes) -> bytes:
    return secret.removesuffix(b"\n").removesuffix(b"\r")


def _identity(certificate: str, key: str) -> tuple[bytes, bytes]:
    return _read("tls_cert", certificate), _read("tls_key", key, private=True)


def _read(option: str, path: str, *, private: bool = False) -> bytes:
    """The content of a file that an option names; of one that is private, others should read nothing."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise OptionError(f"{option} {path}: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise OptionError(f"{option} {path}: it is longer than {MAX_FILE_BYTES} bytes")
    # The mode of a pipe or a device protects nothing.
    if private and stat.S_ISREG(mode) and mode & 0o077:
        warnings.warn(
            f"{path} is open to others than its owner (mode {mode & 0o777:o}): it is no secret to them;"
            f" mend it with `chmod 600 {path}`",
            stacklevel=2,
        )
    return content


def _both(one: str, first: object, other: str, second: object) -> None:
    """Options that go together."""
    if (first is None) != (second is None):
        given, missing = (one, other) if second is None else (other, one)
        raise OptionError(f"{given} takes {missing} besides")


#: More than any bundle of certificates has.
MAX_FILE_BYTES = 16 << 20

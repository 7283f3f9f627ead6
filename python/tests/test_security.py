"""Secrets, TLS and Celeritas, between nodes of this machine."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import trustme
import xarray
import zarr

import lambdaram

SECRET = b"sixteen bytes or more"


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    return private(tmp_path / "secret", SECRET + b"\n")


class Certificates:
    """An authority, and what it has signed, as files."""

    def __init__(self, folder: Path) -> None:
        authority, stranger = trustme.CA(), trustme.CA()
        self.authority, self.strange_authority = folder / "authority.pem", folder / "stranger-authority.pem"
        authority.cert_pem.write_to_path(self.authority)
        stranger.cert_pem.write_to_path(self.strange_authority)
        self.server = self.signed(folder, "server", authority, "climate.example.org")
        self.client = self.signed(folder, "client", authority, "reader.example.org")
        self.stranger = self.signed(folder, "stranger", stranger, "reader.example.org")

    @staticmethod
    def signed(folder: Path, name: str, authority: trustme.CA, identity: str) -> dict[str, Path]:
        certificate = authority.issue_cert(identity)
        files = {"tls_cert": folder / f"{name}.pem", "tls_key": folder / f"{name}.key"}
        certificate.cert_chain_pems[0].write_to_path(files["tls_cert"])
        private(files["tls_key"], certificate.private_key_pem.bytes())
        return files


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls_server(climate_file, certificates):
    with lambdaram.serve(climate_file, **certificates.server) as server:
        yield server


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "celeritas://127.0.0.1:0"])
@pytest.mark.parametrize("encrypt", [False, True])
def test_a_secret_of_both_ends(climate_file, secret_file, listen, encrypt, elements):
    with lambdaram.serve(climate_file, listen, secret_file=secret_file, encrypt=encrypt) as server:
        assert server.addresses[0].startswith("lram+celeritas://" if "celeritas" in listen else "lram://")
        opened = opening(server, secret=SECRET, encrypt=encrypt)
        assert np.array_equal(opened.dataset()["wind"][3], elements["wind"][3])
        with pytest.raises(TypeError, match="secret_file"):
            pickle.dumps(opened)
        by_file = opening(server, secret_file=secret_file, encrypt=encrypt)
        assert pickle.loads(pickle.dumps(by_file)).dataset().name == "climate"
        assert "sixteen" not in repr(opened) + repr(opened._opening)


def test_another_secret(climate_file, secret_file):
    with lambdaram.serve(climate_file, secret_file=secret_file) as server:
        for options, text in [
            ({"secret": b"another secret of some length"}, "the join secret is wrong"),
            ({"insecure": True}, "this end has `insecure`, the peer `psk, encrypted`"),
            ({"secret": SECRET, "encrypt": False}, "this end has `psk, not encrypted`, the peer `psk, encrypted`"),
        ]:
            with pytest.raises(lambdaram.Unreachable, match=text):
                opening(server, **options).dataset()


def test_another_secret_over_celeritas(climate_file, secret_file):
    with lambdaram.serve(climate_file, "celeritas://127.0.0.1:0", secret_file=secret_file) as server:
        with pytest.raises(lambdaram.Unreachable, match="the join secret is wrong"):
            opening(server, secret=b"another secret of some length").dataset()


def test_a_secret_of_the_environment(climate_file, monkeypatch, secret_file):
    monkeypatch.setenv("RAILS_SECRET", SECRET.decode())
    with lambdaram.serve(climate_file) as server:
        opened = opening(server)
        assert opened.dataset()["depth"][()] == 12.5
        far = xarray.open_dataset(server.address(), engine="lambdaram", memory="16MiB", patience=60.0)
        assert pickle.loads(pickle.dumps(far))["depth"].item() == 12.5
        # An option goes before the environment.
        monkeypatch.setenv("RAILS_SECRET", "another secret of some length")
        assert opening(server, secret_file=secret_file).dataset().name == "climate"
        with pytest.raises(lambdaram.Unreachable):
            opening(server).dataset()
    monkeypatch.setenv("RAILS_SECRET", "short")
    with pytest.raises(lambdaram.OptionError, match="RAILS_SECRET: .*16"):
        lambdaram.open("lram://127.0.0.1:1")


def test_a_pin(tls_server, elements):
    opened = opening(tls_server, tls_pin=tls_server.key_pin)
    assert np.array_equal(opened.dataset()["wind"][3], elements["wind"][3])
    assert pickle.loads(pickle.dumps(opened)).dataset().name == "climate"


def test_an_authority(tls_server, certificates, elements):
    opened = opening(tls_server, tls_ca=certificates.authority, tls_name="climate.example.org")
    assert np.array_equal(opened.dataset()["wind"][3], elements["wind"][3])


def test_tls_over_celeritas(climate_file, certificates, elements):
    with lambdaram.serve(climate_file, "celeritas://127.0.0.1:0", **certificates.server) as server:
        opened = opening(server, tls_pin=server.key_pin, rate="500mbit")
        assert np.array_equal(opened.dataset()["wind"][3], elements["wind"][3])


def test_a_server_that_is_not_trusted(tls_server, certificates):
    other_name = {"tls_ca": certificates.authority, "tls_name": "weather.example.org"}
    for options, text in [
        ({"tls_pin": "0" * 64}, f"its key is {tls_server.key_pin}, and not the pinned {'0' * 64}"),
        (other_name, "it is not for `weather.example.org`, but for climate.example.org"),
        ({"tls_ca": certificates.strange_authority, "tls_name": "climate.example.org"}, "no authority that this end"),
    ]:
        with pytest.raises(lambdaram.Unreachable, match=text):
            opening(tls_server, **options).dataset()


def test_a_client_that_shows_a_certificate(climate_file, certificates):
    with lambdaram.serve(climate_file, **certificates.server, tls_client_ca=certificates.authority) as server:
        trust = {"tls_pin": server.key_pin}
        assert opening(server, **trust, **certificates.client).dataset().name == "climate"
        for shown in [{}, certificates.stranger]:
            with pytest.raises(lambdaram.Unreachable):
                opening(server, **trust, **shown).dataset()


def test_xarray_and_zarr_take_the_options(tls_server, elements):
    options = {"tls_pin": tls_server.key_pin, "memory": "16MiB"}
    with xarray.open_dataset(tls_server.address(), engine="lambdaram", mask_and_scale=False, **options) as far:
        assert np.array_equal(far["wind"][3], elements["wind"][3])
    group = zarr.open_group(lambdaram.zarr_store(tls_server.address(), **options), mode="r")
    assert np.array_equal(group["wind"][3], elements["wind"][3])
    chunked = xarray.open_dataset(
        tls_server.address(), engine="lambdaram", mask_and_scale=False, chunks={}, backend_kwargs=options
    )
    assert np.array_equal(chunked["wind"][3], elements["wind"][3])
    engine = xarray.backends.list_engines()["lambdaram"]
    assert {"tls_ca", "tls_pin", "secret_file", "encrypt", "rate", "patience"} <= set(engine.open_dataset_parameters)
    with pytest.raises(TypeError, match="tls_pins"):
        xarray.open_dataset(tls_server.address(), engine="lambdaram", tls_pins="0" * 64)


def test_options_that_contradict_each_other(certificates, secret_file, tmp_path):
    certificate, key = certificates.client.values()
    for options, text in [
        ({"secret": b"short"}, "secret: .*16"),
        ({"secret": SECRET, "insecure": True}, "secret and insecure"),
        ({"secret": SECRET, "secret_file": secret_file}, "secret and secret_file"),
        ({"secret": SECRET, "tls_pin": "0" * 64}, "tls_pin and secret"),
        ({"tls_ca": certificates.authority}, "tls_ca takes tls_name"),
        ({"tls_name": "host"}, "tls_name takes tls_ca"),
        ({"tls_ca": certificates.authority, "tls_name": "host", "tls_pin": "0" * 64}, "tls_ca and tls_pin"),
        ({"tls_ca": certificates.authority, "tls_name": "two words"}, "two words"),
        ({"tls_ca": key, "tls_name": "host"}, "no certificate"),
        ({"tls_pin": "0"}, "64 hexadecimal"),
        ({"tls_cert": certificate, "tls_key": key}, "not whom it trusts"),
        ({"tls_cert": certificate, "tls_pin": "0" * 64}, "tls_cert takes tls_key"),
        ({"tls_cert": key, "tls_key": key, "tls_pin": "0" * 64}, "tls_cert and tls_key"),
        ({"encrypt": False}, "goes with a secret"),
        ({"encrypt": False, "insecure": True}, "goes with a secret"),
        ({"secret_file": tmp_path / "none"}, "secret_file .*none: No such file"),
        ({"secret_file": tmp_path}, "secret_file .*directory"),
        ({"rate": 0}, "0 bits"),
        ({"rate": "fast"}, "rate"),
    ]:
        with pytest.raises(lambdaram.OptionError, match=text):
            lambdaram.open("lram+celeritas://127.0.0.1:1/merra", **options)
    for options, text in [
        ({"tls_cert": certificate, "tls_key": key, "secret": SECRET}, "tls_cert and secret"),
        ({"tls_client_ca": certificates.authority}, "tls_cert"),
        ({"tls_cert": certificate}, "tls_key"),
    ]:
        with pytest.raises(lambdaram.OptionError, match=text):
            lambdaram.serve(tmp_path, **options)


def test_a_secret_that_others_read(climate_file, secret_file):
    secret_file.chmod(0o644)
    with pytest.warns(UserWarning, match="chmod 600"):
        lambdaram.open("lram://127.0.0.1:1", secret_file=secret_file)


def private(path: Path, content: bytes) -> Path:
    path.touch(0o600)
    path.write_bytes(content)
    return path


def opening(server: lambdaram.Server, **options) -> lambdaram.Site:
    return lambdaram.open(server.address(), memory="16MiB", patience=60.0, **options)

"""Who may reach a server: addresses, keys and certificates."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from oatkit_client import Client, Refused

from oatkit.policies import Policy
from oatkit.serve import ServeConfig, serving
from oatkit.serve.access import check_free, exposure, is_allowed, read_api_key, tls_context
from tests.serve.slow import OBSERVATION


def make_certificate(folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(cert)]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(["openssl", "req", *kind, *files, *subject], check=True, capture_output=True)
    return cert, key


needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl makes the certificate"
)


@needs_openssl
def test_nobody_is_asked_for_a_password(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path)
    locked = tmp_path / "locked.pem"
    change = ["-aes128", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(["openssl", "ec", "-in", str(key), *change], check=True, capture_output=True)
    with pytest.raises(ValueError, match="no certificate with its key, unencrypted"):
        tls_context(cert, locked)


@needs_openssl
def test_tls(light: Policy, tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path)
    config = ServeConfig(port=0, max_batch=1, tls=tls_context(cert, key))
    with serving(light, config) as url:
        assert url.startswith("wss://")
        with Client(url, ssl=ssl.create_default_context(cafile=cert)) as client:
            assert client.infer(OBSERVATION)["budget_used"] == 8
        with Client(url) as stranger, pytest.raises(Refused, match=r"not trusted \(self.signed"):
            stranger.infer(OBSERVATION)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_is_no_danger(host: str) -> None:
    assert exposure(host, has_key=False, has_tls=False) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "robot.local"])
def test_other_addresses_are_warned_of(host: str) -> None:
    assert "ANYONE who reaches" in (exposure(host, has_key=False, has_tls=True) or "")
    assert "unencrypted" in (exposure(host, has_key=True, has_tls=False) or "")
    assert exposure(host, has_key=True, has_tls=True) is None


def test_keys_are_compared_whole(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("  abc \n")
    key = read_api_key(path)
    assert key == "abc"
    assert is_allowed(["Api-Key abc"], key)
    for header in ("", "abc", "Api-Key ab", "Api-Key abcd", "Bearer abc", "Api-Key äbc"):
        assert not is_allowed([header], key)
    assert not is_allowed([], key)
    assert not is_allowed(["Api-Key x", "Api-Key abc"], key)
    assert is_allowed([], None)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="holds no API key"):
        read_api_key(path)
    with pytest.raises(ValueError, match="no certificate with its key"):
        tls_context(path, path)


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ValueError, match=rf"cannot listen on '127\.0\.0\.1', port {port} \("):
            check_free("127.0.0.1", port)
    check_free("127.0.0.1", port)

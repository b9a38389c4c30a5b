"""Who may reach a server: addresses, keys and certificates."""

from __future__ import annotations

import hmac
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from oatkit_client.protocol import KEY_SCHEME


def read_api_key(path: Path) -> str:
    """The key in a file; an error names the file, and never shows its content."""
    try:
        key = path.read_text(errors="replace").strip()
    except OSError as error:
        raise ValueError(f"the API key {path} cannot be read: {error.strerror}") from error
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError(f"{path} holds no API key: expected one line of printable ASCII")
    return key


def is_allowed(authorizations: Sequence[str], api_key: str | None) -> bool:
    """Whether the one `Authorization` header is the key; takes the same time for any wrong one."""
    if api_key is None:
        return True
    wanted = f"{KEY_SCHEME} {api_key}".encode()
    given = ", ".join(authorizations).encode(errors="surrogateescape")
    return hmac.compare_digest(given, wanted)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_free(host: str, port: int) -> None:
    """Raise where the server could not listen, before minutes are spent on loading a policy."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            if family == socket.AF_INET6 and not socket.has_dualstack_ipv6():
                continue
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        raise ValueError(
            f"cannot listen on {host!r}, port {port} ({error.strerror}): choose another --port or "
            "--host"
        ) from error


def exposure(host: str, *, has_key: bool, has_tls: bool) -> str | None:
    """The danger of listening on an address, as a sentence; None where there is none."""
    if is_loopback(host):
        return None
    if not has_key:
        return (
            f"ANYONE who reaches {host} can drive this policy: the server listens beyond this "
            "machine without --api-key-file"
        )
    if not has_tls:
        return (
            f"the API key and all observations cross the network to {host} unencrypted: give "
            "--tls-cert and --tls-key"
        )
    return None


def tls_context(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Certificate and key for `wss://`; None where neither is given."""
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise ValueError("TLS takes both --tls-cert and --tls-key")
    for file in (cert, key):
        if not file.is_file():
            raise ValueError(f"there is no file {file}, expected one in the PEM format")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password="")  # nobody is there to type one
    except ssl.SSLError as error:
        raise ValueError(
            f"{cert} and {key} are no certificate with its key, unencrypted ({error})"
        ) from error
    return context

"""Who may reach a server: its address, its key, its certificate."""

from __future__ import annotations

import hmac
import ipaddress
import ssl
from pathlib import Path


def read_api_key(path: Path) -> str:
    """The key in a file; its name, never its content, is in an error."""
    key = path.read_text().strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError(f"{path} holds no API key: expected one line of printable ASCII")
    return key


def is_allowed(authorization: str | None, api_key: str | None) -> bool:
    """Whether an `Authorization` header holds the key; takes as long for any wrong one."""
    if api_key is None:
        return True
    wanted = f"Api-Key {api_key}".encode()
    return hmac.compare_digest((authorization or "").encode(errors="surrogateescape"), wanted)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def exposure(host: str, *, has_key: bool, has_tls: bool) -> str | None:
    """What is dangerous about an address, if anything."""
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
    """None without TLS."""
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise ValueError("TLS takes both --tls-cert and --tls-key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as error:
        raise ValueError(f"{cert} and {key} are no certificate with its key ({error})") from error
    return context

"""A policy behind a websocket, by openpi's protocol."""

from oatkit.errors import MissingExtraError

try:
    from oatkit.serve.embedded_server import serving
    from oatkit.serve.serve_config import ServeConfig
    from oatkit.serve.server import PolicyServer
except ModuleNotFoundError as error:
    needed = ("oatkit_client", "msgpack", "prometheus_client", "websockets")
    if (error.name or "").partition(".")[0] not in needed:
        raise
    raise MissingExtraError("serve") from error

__all__ = ["PolicyServer", "ServeConfig", "serving"]

"""A policy behind a websocket, by openpi's protocol."""

from oatkit.serve.server import PolicyServer, ServeConfig, serving

__all__ = ["PolicyServer", "ServeConfig", "serving"]

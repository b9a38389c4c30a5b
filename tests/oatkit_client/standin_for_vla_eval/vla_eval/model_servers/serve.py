"""The command line of a model server; what it is served to is left out."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any


def run_server(server: Any) -> None:
    parser = ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--args.url", dest="url")
    parser.add_argument("--args.cameras", dest="cameras", default="[]")
    args = parser.parse_args()
    server(url=args.url, cameras=[name for name in args.cameras.strip("[]").split(",") if name])

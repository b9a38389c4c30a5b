"""`oatkit lab`: tokenizers and a dataset as a page to play with, live or written to disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.device_options import DeviceFlag, announce_device
from oatkit.commands.text_output import print_differences, print_lines
from oatkit.lab import Lab
from oatkit.lab.static_page import choose_places, static_page, write_page
from oatkit.lab.tokenizer_names import tokenizer_names
from oatkit.tokenizers import load_tokenizer

NUM_CHUNKS = 8
"""Number of exported chunks, unless they are named."""


@dataclass(frozen=True)
class OpenLab:
    """Look at the chunks of a dataset through tokenizers, and play with the tokens.

    Example:
        oatkit lab out/compared/oat out/compared/oat-pow2 --data out/metaworld
    """

    tokenizers: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR [DIR ...]")]
    """Artifacts of one horizon."""
    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id."""
    port: int = 8765
    """Port on this machine; 0 for any that is free."""
    export: Annotated[Path | None, arg(metavar="DIR")] = None
    """Write a page for a few chunks into this folder instead; it opens from disk."""
    chunks: Annotated[tuple[str, ...], arg(metavar="EPISODE:FRAME")] = ()
    """Which chunks to export; some lively held-out ones by default."""
    device: DeviceFlag = "auto"
    columns: Columns = DatasetOptions()


def run(options: OpenLab, console: Console) -> int:
    """Serve the page until ctrl-C, or export it."""
    if options.chunks and options.export is None:
        raise ValueError("--chunks names what --export writes: give both")
    lab = _load(options, console)
    if options.export is not None:
        places = [_place(text) for text in options.chunks] or choose_places(lab, NUM_CHUNKS)
        page = write_page(static_page(lab, places), options.export)
        print_lines(console, f"wrote {page}, {len(places)} chunks", "next: open it in a browser")
        return 0
    from oatkit.lab.app import serve_lab

    serve_lab(lab, options.port, lambda url: console.print(f"open {url}\nctrl-C stops"))
    console.print("stopped")
    return 0


def _load(options: OpenLab, console: Console) -> Lab:
    """Load everything, and say where data and tokenizers do not fit."""
    device = announce_device(console, options.device)
    names = tokenizer_names(options.tokenizers)
    tokenizers = {name: load_tokenizer(folder, device=device) for name, folder in names.items()}
    dataset = (
        options.columns.open_like(next(iter(tokenizers.values())), options.data, console)
        if tokenizers
        else options.columns.open(options.data, console)
    )
    lab = Lab(tokenizers, dataset)
    for name, tokenizer in tokenizers.items():
        print_differences(console, name, tokenizer.check(lab.dataset))
    return lab


def _place(text: str) -> tuple[int, int]:
    try:
        episode, frame = text.split(":")
        return int(episode), int(frame)
    except ValueError as error:
        raise ValueError(f"chunk {text!r} is no EPISODE:FRAME, such as 3:40") from error

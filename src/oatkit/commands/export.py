"""`oatkit export`: a tokenizer's decoder, and the light policy, as ONNX files with a JSON."""

from __future__ import annotations

from rich.console import Console

from oatkit.commands.text_output import print_lines
from oatkit.jobs.model_export import Export, export_model


def run(options: Export, console: Console) -> int:
    export_model(options, console)
    print_lines(
        console, f"next: oatkit_client.LocalDecoder({str(options.folder)!r}).decode(tokens)"
    )
    return 0

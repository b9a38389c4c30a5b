"""`oatkit export`: a tokenizer's decoder, and the light policy, as ONNX files with a JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from tyro.conf import Positional

from oatkit.commands.text_output import print_lines
from oatkit.jobs.model_export import export_model


@dataclass(frozen=True)
class Export:
    """Write a tokenizer's decoder, and a light policy, as ONNX files that need no torch.

    Example:
        oatkit export out/policy --format onnx --out out/onnx
    """

    artifact: Positional[Path]
    """A policy or a tokenizer: folder or hub id."""
    out: Path | None = None
    """Folder for the files and `export.json`; `onnx` in the artifact's own by default."""
    format: Literal["onnx"] = "onnx"
    """Format of the files."""

    @property
    def folder(self) -> Path:
        """Where the files go."""
        if self.out is not None:
            return self.out
        if not self.artifact.is_dir():
            raise ValueError(
                f"{self.artifact} is no folder here: name one for the files with --out"
            )
        return self.artifact / "onnx"


def run(options: Export, console: Console) -> int:
    exported = export_model(options.artifact, options.folder)
    for path, size in exported.file_bytes.items():
        print_lines(console, f"wrote {path}, {size / 1e6:.1f} MB")
    print_lines(
        console,
        f"wrote {exported.facts_path}",
        f"differs from torch by at most {exported.difference:.1g}",
    )
    if exported.left_out is not None:
        kind = exported.left_out
        print_lines(console, f"a {kind} policy stays where torch is: only its decoder was written")
    folder = repr(str(options.folder))
    call = f"oatkit_client.LocalDecoder({folder}).decode(tokens)"
    if "encoder.onnx" in {path.name for path in exported.file_bytes}:
        call = f"oatkit_client.LocalPolicy({folder}).infer(observation)"
    print_lines(console, f"next: {call}")
    return 0

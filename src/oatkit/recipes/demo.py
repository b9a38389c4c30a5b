"""`oatkit demo`: the whole story on a small scale. So far: demonstrations and their tokenizers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from oatkit.recipes.compare_tokenizers import CompareTokenizers, compare_tokenizers
from oatkit.recipes.inspect_data import ShowInfo, show_info
from oatkit.recipes.make_metaworld import MakeMetaWorld, make_metaworld


@dataclass(frozen=True)
class Demo:
    """Make real demonstrations in the simulator, train every tokenizer on them and compare.

    Example:
        oatkit demo --out out/demo --minutes 2
    """

    out: Path = Path("out/demo")
    """Folder for everything the demo writes."""
    episodes: int = 10
    """Demonstrations per task; the tasks are the paper's four."""
    minutes: float = 0.5
    """Training time of each of the four learned tokenizers."""


def run_demo(options: Demo, console: Console) -> int:
    console.rule("1  demonstrations from the MetaWorld simulator")
    folder = make_metaworld(MakeMetaWorld(out=options.out / "metaworld", episodes=options.episodes))
    console.rule("2  what was recorded")
    code = show_info(ShowInfo(path=str(folder)), console)
    console.rule("3  every tokenizer on it")
    compared = options.out / "compared"
    compare_tokenizers(
        CompareTokenizers(data=str(folder), out=compared, minutes=options.minutes), console
    )
    console.print(f"open {compared / 'report.html'} in a browser", markup=False, soft_wrap=True)
    return code

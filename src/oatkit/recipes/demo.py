"""`oatkit demo`: the whole story on a small scale. So far: demonstrations and a look at them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from oatkit.recipes.inspect_data import ShowInfo, show_info
from oatkit.recipes.make_metaworld import MakeMetaWorld, make_metaworld


@dataclass(frozen=True)
class Demo:
    """Make real demonstrations in the simulator and show what they look like.

    Example:
        oatkit demo --out out/demo
    """

    out: Path = Path("out/demo")
    """Folder for everything the demo writes."""
    episodes: int = 10
    """Demonstrations per task; the tasks are the paper's four."""


def run_demo(options: Demo, console: Console) -> int:
    console.rule("1  demonstrations from the MetaWorld simulator")
    folder = make_metaworld(MakeMetaWorld(out=options.out / "metaworld", episodes=options.episodes))
    console.rule("2  what was recorded")
    return show_info(ShowInfo(path=str(folder)), console)

"""The flags of sampling are the fields of `Sampling`, in every command that samples."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest
import tyro

from oatkit.commands.sampling_options import SamplingFlags
from oatkit.types import Sampling
from tests.commands.running import run_command


@dataclass(frozen=True)
class Command:
    """Anything that samples."""

    sampling: SamplingFlags = Sampling(seed=0)


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ("", Sampling(seed=0)),
        ("--temperature 0.5 --top-p 0.9 --seed 3", Sampling(0.5, 10, 0.9, seed=3)),
        ("--top-k 0", Sampling(top_k=None, seed=0)),
        ("--top-k None --seed None", Sampling(top_k=None)),
    ],
)
def test_flags_become_the_rules(flags: str, wanted: Sampling) -> None:
    assert tyro.cli(Command, args=flags.split()).sampling == wanted


@pytest.mark.parametrize("words", [["policy", "eval"], ["serve"]], ids=" ".join)
def test_commands_that_sample_have_them_all(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run_command([*words, "--help"], capsys)
    assert code == 0
    for field in fields(Sampling):
        assert f"--{field.name.replace('_', '-')} " in out

"""Tables of whole chunks, as artifacts of before have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from oatkit.errors import ArtifactError
from oatkit.tokenizers import load_tokenizer
from oatkit.tokenizers.klt import Klt
from oatkit.tokenizers.klt_tables import SummedTables
from oatkit.types import Tokens
from tests.tokenizers.small_tokenizers import make, walks

GOLDEN = Path(__file__).parent / "golden"
OLD = "klt-whole-chunk-tables"


@pytest.mark.parametrize("sizes", [(12,), (4, 3)])
def test_a_chunk_is_the_sum_of_the_vectors_of_its_ids(sizes: tuple[int, ...]) -> None:
    tables = SummedTables(sizes, torch.randn(3 * len(sizes), max(sizes), 5))
    ids = torch.randint(12, (20, 3))
    tokens = Tokens(ids, torch.randint(0, 4, (20,)))
    vectors = tables.joined()[torch.arange(3), ids]
    wanted = (vectors * (torch.arange(3) < tokens.lengths[:, None])[..., None]).sum(dim=1)
    torch.testing.assert_close(tables.decode(tokens), wanted)


@pytest.mark.parametrize("name", [OLD, f"{OLD}-scalar-cells"])
def test_an_old_artifact_is_written_as_it_was_read(name: str, tmp_path: Path) -> None:
    old = load_tokenizer(GOLDEN / name)
    assert isinstance(old.codec, Klt)
    assert old.codec.summed_tables is not None
    again = load_tokenizer(old.save_pretrained(tmp_path))
    assert again.digest == old.digest
    assert again(walks()) == old(walks())


def test_an_old_artifact_can_be_fitted_anew() -> None:
    old = load_tokenizer(GOLDEN / OLD)
    assert isinstance(old.codec, Klt)
    chunks = torch.from_numpy(old.normalizer.normalize(walks()))
    old.codec.fit(lambda: iter([chunks]))
    assert old.codec.summed_tables is None
    error = old.codec.decode(old.codec.encode(chunks)) - chunks
    assert error.square().mean() < 0.1 * chunks.square().mean()


def test_tables_of_another_config_are_refused(tmp_path: Path) -> None:
    for name, tokenizer in (("old", load_tokenizer(GOLDEN / OLD)), ("new", make("klt"))):
        folder = tokenizer.save_pretrained(tmp_path / name)
        settings = json.loads((folder / "config.json").read_text())
        settings["codec"]["num_tokens"] += 1
        (folder / "config.json").write_text(json.dumps(settings))
        with pytest.raises(ArtifactError, match="is of another config"):
            load_tokenizer(folder)

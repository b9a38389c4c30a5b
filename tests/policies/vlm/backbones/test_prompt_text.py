"""Small vocabularies hold any text, and fixed pieces of a prompt are ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import GemmaTokenizer, GPT2Tokenizer

from oatkit.policies.vlm.backbones.prompt_text import text_ids, train_bpe

CORPUS = ("open the door", "close the other door now")
BYTES = train_bpe(CORPUS, ("<|end|>", "<|pad|>"))
GEMMA = train_bpe(CORPUS, ("<pad>", "<eos>", "<bos>", "<unk>"), space="▁")


def make_tokenizer(space: str | None):  # type: ignore[no-untyped-def]
    if space is None:
        return GPT2Tokenizer(vocab=BYTES[0], merges=BYTES[1])
    return GemmaTokenizer(vocab=GEMMA[0], merges=GEMMA[1], add_bos_token=False)


@pytest.mark.parametrize("space", [None, "▁"])
def test_special_tokens_come_first_and_ids_follow_one_another(space: str | None) -> None:
    vocab = (BYTES if space is None else GEMMA)[0]
    special = ["<|end|>", "<|pad|>"] if space is None else ["<pad>", "<eos>", "<bos>", "<unk>"]
    assert [vocab[name] for name in special] == list(range(len(special)))
    assert sorted(vocab.values()) == list(range(len(vocab)))


@pytest.mark.parametrize("space", [None, "▁"])
@given(text=st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=12))
def test_any_text_comes_back(space: str | None, text: str) -> None:
    tokenizer = make_tokenizer(space)
    text = f"a{text.replace('▁', '')}"  # where it stands for a space it cannot be told from one
    assert tokenizer.decode(text_ids(tokenizer, text)) == text


@pytest.mark.parametrize("space", [None, "▁"])
def test_words_of_the_corpus_take_few_ids(space: str | None) -> None:
    tokenizer = make_tokenizer(space)
    assert len(text_ids(tokenizer, CORPUS[0])) <= 4
    assert len(text_ids(tokenizer, "zyxwvutsrq")) == 10

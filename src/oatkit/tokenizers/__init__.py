"""Chunks of actions to tokens and back."""

from oatkit.tokenizers.kinds import KINDS, make_codec, make_config
from oatkit.tokenizers.tokenizer import ActionTokenizer, load_tokenizer

__all__ = ["KINDS", "ActionTokenizer", "load_tokenizer", "make_codec", "make_config"]

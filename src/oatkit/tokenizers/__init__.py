"""Chunks of actions to tokens and back."""

from oatkit.tokenizers.action_tokenizer import ActionTokenizer, load_tokenizer
from oatkit.tokenizers.kind_table import KINDS, make_codec, make_config

__all__ = ["KINDS", "ActionTokenizer", "load_tokenizer", "make_codec", "make_config"]

"""A text tokenizer in a folder, in the place of PaliGemma's."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, processors

NUM_IDS = 1200


def write_text_tokenizer(folder: Path, *, num_ids: int = NUM_IDS) -> Path:
    """Words, of which only those around action tokens are known; text ends with `<eos>`."""
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<bos>", "<eos>", "<unk>", "Action", ":", "|", "Task", "State"]
    words += [f"<extra_{i}>" for i in range(num_ids - len(words))]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing("$A <eos>", special_tokens=[("<eos>", 2)])
    text = PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
    )
    text.save_pretrained(folder)
    return folder

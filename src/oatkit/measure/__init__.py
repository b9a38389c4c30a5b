"""Rate, distortion and token diagnostics, as records."""

from oatkit.measure.tokenizer import measure_tokenizer

__all__ = ["measure_tokenizer"]

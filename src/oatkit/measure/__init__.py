"""Rate, distortion and token diagnostics, as records."""

from oatkit.measure.tokenizer_metrics import measure_tokenizer

__all__ = ["measure_tokenizer"]

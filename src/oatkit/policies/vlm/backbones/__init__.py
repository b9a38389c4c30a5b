"""Vision-language models behind one protocol; the only place that imports `transformers`."""

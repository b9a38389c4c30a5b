"""One script for each published number; it writes `benchmarks/results/<name>.json`."""

"""One script per published number. Each writes `benchmarks/results/<name>.json`."""

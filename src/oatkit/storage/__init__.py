"""What is written to disk: artifacts, atomic writes, digests and versioned JSON records."""

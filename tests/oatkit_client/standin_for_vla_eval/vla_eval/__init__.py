"""What the bridge uses of vla-eval 0.8, which has an environment of its own."""

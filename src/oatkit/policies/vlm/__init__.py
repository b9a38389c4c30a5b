"""Vision-language policies."""

"""What policies observe."""

"""Of `lerobot`."""

__version__ = "0.4.4"

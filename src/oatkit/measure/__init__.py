"""Rate, distortion and token diagnostics, as records."""

"""All tests here need ONNX Runtime."""

from __future__ import annotations

import pytest

pytest.importorskip("onnxruntime", reason="oatkit[onnx] is not installed")

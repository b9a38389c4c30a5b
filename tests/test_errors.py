"""What users read when something goes wrong."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from oatkit import errors


def test_a_missing_extra_says_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['h5py'] = None; sys.modules['av'] = None; import oatkit.errors\n"
        "for name in ('oatkit.data.formats.hdf5', 'oatkit.data.video'):\n"
        "    try: __import__(name)\n"
        "    except oatkit.errors.MissingExtraError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    line = "this needs optional packages: pip install 'oatkit[data]'"
    assert ran.stdout.splitlines() == [line, line]


def test_unknown_names_come_closest_first() -> None:
    message = errors.unknown_name("task", "boxclose", ["assembly", "box-close", "door-close"])
    assert (
        message == "unknown task 'boxclose'; known, closest first: box-close, door-close, assembly"
    )
    many = errors.unknown_name("task", "x", [f"task-{i:02d}" for i in range(20)])
    assert many.endswith("and 12 more")
    assert errors.unknown_name("camera", "top", []) == "unknown camera 'top': there are none"


def test_a_path_of_a_similar_name_may_be_meant(tmp_path: Path) -> None:
    (tmp_path / "metaworld").mkdir()
    meant = f": did you mean {tmp_path}/metaworld?"
    assert errors.similar_path(tmp_path / "metawold") == meant
    assert errors.similar_path(tmp_path / "pusht") == ""
    assert errors.similar_path(tmp_path / "nowhere/metaworld") == ""


def test_errors_travel_between_processes() -> None:
    error = pickle.loads(pickle.dumps(errors.MissingExtraError("data")))
    assert "oatkit[data]" in str(error)
    named = errors.MissingExtraError("libero", "bddl==1.0.1")
    assert str(pickle.loads(pickle.dumps(named))) == (
        "this needs bddl==1.0.1, which is not installed: pip install bddl==1.0.1, or "
        "everything at once: pip install 'oatkit[libero]'"
    )

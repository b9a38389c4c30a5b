"""A real browser, driven over its own protocol (CDP): headless Chromium and one websocket.

The test process asks and waits; events that arrive in between are kept for the tests to look at.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
    *("--hide-scrollbars", "--remote-debugging-port=0"),
)
WAIT_S = 60.0


class Tab:
    """One page; what it requested and what its console said."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._count = 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> Any:
        """One command, its result."""
        self._count += 1
        number = self._count
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=WAIT_S))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            if "method" in message:  # else the late answer of a command that was given up
                self._note(message)

    def _note(self, event: dict[str, Any]) -> None:
        params = event["params"]
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event["method"] == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in (
            "error",
            "warning",
        ):
            self.complaints.append(str(params["args"]))
        elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"])

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression in the page holds."""
        deadline = time.monotonic() + WAIT_S
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < deadline, f"never came true: {condition}"
            time.sleep(0.02)

    def open(
        self, url: str, *, width: int = 1400, height: int = 1000, is_dark: bool = False
    ) -> None:
        """Load a page afresh, in a window of this size."""
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def resize(self, width: int, height: int) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def press(self, key: str, *, is_shift: bool = False) -> None:
        """One key, down and up."""
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, " ": 32}
        code = codes.get(key, ord(key[0].upper()))
        shared = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if is_shift else 0}
        text = {"text": key} if len(key) == 1 else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **shared, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **shared)

    def click(self, selector: str) -> None:
        """A real click in the middle of an element."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.drag([tuple(box)])

    def drag(self, points: list[tuple[float, float]]) -> None:
        """Press at the first point, pass the others, let go at the last."""
        (x, y), last = points[0], points[-1]
        mouse = {"button": "left", "clickCount": 1}
        self.ask("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **mouse)
        for x, y in points[1:]:
            self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, **mouse)
        self.ask("Input.dispatchMouseEvent", type="mouseReleased", x=last[0], y=last[1], **mouse)

    def screenshot(self, path: Path, *, is_full_page: bool = False) -> Path:
        """A PNG of the window, or of the full page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=is_full_page)
        path.write_bytes(b64decode(shot["data"]))
        return path


@contextlib.contextmanager
def open_browser() -> Iterator[Tab]:
    """A tab of a browser of its own, which ends with the block."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        profile = Path(folder)
        process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with connect(_tab_address(profile, process), max_size=None) as socket:
                yield Tab(socket)
        finally:
            process.terminate()
            process.wait(WAIT_S)


def _tab_address(profile: Path, process: subprocess.Popen[bytes]) -> str:
    """Where the browser's first tab listens; it writes its port into its profile."""
    import urllib.request

    deadline = time.monotonic() + WAIT_S
    port_file = profile / "DevToolsActivePort"
    while not port_file.exists() or not port_file.read_text().strip():
        assert process.poll() is None, "the browser ended at once"
        assert time.monotonic() < deadline, "the browser does not start"
        time.sleep(0.05)
    port = port_file.read_text().split()[0]
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=WAIT_S) as reply:
            tabs = [tab for tab in json.load(reply) if tab["type"] == "page"]
        if tabs:
            return str(tabs[0]["webSocketDebuggerUrl"])
        assert time.monotonic() < deadline, "the browser has no tab"
        time.sleep(0.05)

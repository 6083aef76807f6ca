"""A real headless Chromium, spoken to over a pipe by its DevTools protocol: nothing to install but the browser."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

FOUND = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    *("--disable-dev-shm-usage", "--hide-scrollbars=false", "--remote-debugging-pipe"),
]


class Browser:
    """One browser with one page. Messages of the protocol end with a zero byte."""

    def __init__(self) -> None:
        assert FOUND
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self.write_to = os.pipe()
        self.read_from, to_write = os.pipe()
        # the browser reads from descriptor 3 and writes to 4
        shell = f"exec {FOUND} {' '.join(FLAGS)} --user-data-dir={self.folder.name} 3<&{to_read} 4>&{to_write}"
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", shell],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.number = 0
        self.rest = b""
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **given: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": given}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_to, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._next()
            if reply.get("id") == self.number:
                assert "error" not in reply, f"{method}: {reply['error']}"
                return dict(reply["result"])
            self.events.append(reply)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            piece = os.read(self.read_from, 1 << 20)
            assert piece, "the browser has gone"
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\0")
        return dict(json.loads(line))

    def open(self, page: Path | str, width: int, height: int, dark: bool, phone: bool = False) -> None:
        """Show a file or an address; what it then does is in `events`."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.events = []
        self.ask("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        while not any(one.get("method") == "Page.loadEventFired" for one in self.events):
            self.events.append(self._next())
        self.evaluate("document.fonts.ready.then(() => 1)")

    def evaluate(self, script: str) -> Any:
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, file: Path, whole: bool = False) -> Path:
        """What is seen, or the page down to its end."""
        file.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))
        return file

    def complaints(self) -> list[str]:
        """Errors and warnings of the console."""
        found = []
        for one in self.events:
            if one.get("method") == "Runtime.exceptionThrown":
                found.append(str(one["params"]["exceptionDetails"].get("text")))
            if one.get("method") == "Runtime.consoleAPICalled":
                found.append(f"console.{one['params']['type']}")
            if one.get("method") == "Log.entryAdded":
                found.append(str(one["params"]["entry"]["text"]))
        return found

    def requests(self) -> list[str]:
        return [
            one["params"]["request"]["url"] for one in self.events if one.get("method") == "Network.requestWillBeSent"
        ]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.write_to)
        os.close(self.read_from)
        self.folder.cleanup()

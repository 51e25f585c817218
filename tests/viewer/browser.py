"""A headless browser that tests talk to over two pipes, in its DevTools protocol: no driver, no port.

Found in $ASCENDSIM_BROWSER, or as one of NAMES on the path.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions", "--hide-scrollbars"),
    *("--force-color-profile=srgb", "--disable-lcd-text", "--font-render-hinting=none", "--remote-debugging-pipe"),
)
ABSENT = f"no browser: none of {', '.join(NAMES)} is on the path, and $ASCENDSIM_BROWSER is not set"
_PATIENCE_S = 60
_PLACED = """
import fcntl, os, sys
ours = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for place, number in zip((3, 4), ours):
    os.dup2(number, place)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Puts the pipes' ends where the browser looks for them, 3 and 4; first out of the way, one may be in such a place."""


def find_browser():
    """The browser's file, or None."""
    named = os.environ.get("ASCENDSIM_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One browser; use it with `with`."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()

        command = [find_browser(), *FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PLACED, str(theirs_in), str(theirs_out), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs_in, theirs_out),
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._count, self._rest, self.events = 0, b"", []
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._folder.cleanup()

    def ask(self, method, session=None, **parameters):
        """Send a command and return its result; events meanwhile are kept."""
        self._count += 1
        number = self._count
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def _next(self):
        end = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._from, 1 << 16)
            assert part, "the browser is gone"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, file, width=1280, height=800, scheme="light", ratio=1):
        """Open a file, with so many pixels of the screen to one of the page, and wait until its run is shown."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.ask(f"{domain}.enable")
        page.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=ratio, mobile=False
        )
        page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.ask("Page.navigate", url=Path(file).absolute().as_uri())
        page.wait("window.viewer !== undefined")
        return page


class Page:
    """A page that is shown."""

    def __init__(self, browser, session):
        self._browser, self._session = browser, session

    def ask(self, method, **parameters):
        return self._browser.ask(method, self._session, **parameters)

    def run(self, script):
        """The value of an expression in the page; a promise is waited for."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition):
        """Wait until an expression holds."""
        end = time.monotonic() + _PATIENCE_S
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"never: {condition}\n{self.troubles()}"
            time.sleep(0.02)

    def show(self):
        """Bring it to the front: a browser draws no page that nobody sees."""
        self.ask("Page.bringToFront")

    def settle(self):
        """Wait until what was asked for is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def key(self, key, text=None, modifiers=0):
        """Press and release a key."""
        code = {"key": key, "modifiers": modifiers} | ({"text": text or key} if len(key) == 1 or text else {})
        if key == "Tab":
            code |= {"code": "Tab", "windowsVirtualKeyCode": 9}
        if key == "Enter":
            code |= {"code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **code)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in code.items() if k != "text"})
        self.settle()

    def mouse(self, kind, x, y, **more):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)
        self.settle()

    def drag(self, start, end, modifiers=0):
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start, button="left", buttons=1, clickCount=1, modifiers=modifiers)
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        for place in (middle, end):
            self.mouse("mouseMoved", *place, button="left", buttons=1, modifiers=modifiers)
        self.mouse("mouseReleased", *end, button="left", clickCount=1, modifiers=modifiers)
        self.settle()

    def wheel(self, x, y, delta, modifiers=0):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta, modifiers=modifiers)
        self.settle()

    def picture(self):
        """A screenshot as PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])

    def troubles(self):
        """Errors and warnings of the console, exceptions, and requests but for the page itself."""
        found = []
        for event in self._browser.events:
            kind, what = event.get("method"), event.get("params", {})
            if event.get("sessionId") != self._session:
                continue
            if kind == "Runtime.exceptionThrown":
                found.append(what["exceptionDetails"].get("exception", {}).get("description", str(what)))
            elif kind == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
                found.append(str(what["args"]))
            elif kind == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                found.append(what["entry"]["text"])
            elif kind == "Network.requestWillBeSent" and not what["request"]["url"].startswith(("file:", "data:")):
                found.append(f"asks for {what['request']['url']}")
        return found

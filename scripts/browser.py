"""A headless Chromium that makes screenshots, and pages that a test types into. The user's own browser is not
touched."""
import base64
import contextlib
import json
import os
import shutil
import select
import subprocess
import tempfile
import time

import processes

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--hide-scrollbars"]


def find():
    """The path of Chromium, or of BROWSER; None if there is none."""
    names = [os.environ["BROWSER"]] if os.environ.get("BROWSER") else ["chromium", "chromium-browser", "google-chrome"]
    return next((p for n in names if (p := shutil.which(n))), None)


def scheme(dark):
    """The option for a preference of dark colours or light ones."""
    return f"--blink-settings=preferredColorScheme={int(not dark)}"


class Browser:
    """Runs with a profile of its own, which is removed at the end."""

    def __init__(self):
        self.program = find()
        if self.program is None:
            raise FileNotFoundError("chromium is missing: install the package chromium")

    def __enter__(self):
        self.profile = tempfile.mkdtemp()
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.profile, ignore_errors=True)

    @contextlib.contextmanager
    def page(self, url, width, height, dark=False):
        """A page in a browser of its own, to be driven (class Page)."""
        ours, theirs = os.pipe(), os.pipe()  # requests, answers
        # DevTools' protocol over file descriptors 3 and 4: no port, and nothing to install.
        command = ["sh", "-c", f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}', "sh", self.program, *FLAGS, scheme(dark),
                   f"--user-data-dir={tempfile.mkdtemp(dir=self.profile)}", f"--window-size={width},{height}", "--remote-debugging-pipe", "about:blank"]
        process = subprocess.Popen(command, pass_fds=(ours[0], theirs[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(ours[0])
        os.close(theirs[1])
        try:
            yield Page(theirs[0], ours[1], url, width, height)
        finally:
            processes.end(process, 10)
            os.close(ours[1])
            os.close(theirs[0])

    def shot(self, url, png, width, height, dark=False, timeout=120):
        """Writes a screenshot of a page in the given size, with the preference for dark colours or light ones."""
        if os.path.exists(png):
            os.remove(png)
        # Chromium may wait for its helpers after the picture is there.
        command = [self.program, *FLAGS, scheme(dark), f"--user-data-dir={self.profile}", f"--window-size={width},{height}", f"--screenshot={png}", url]
        try:
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            pass
        if not os.path.exists(png):
            raise RuntimeError(f"chromium made no picture of {url}")


KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Escape": 27, "Tab": 9}


class Page:
    """A loaded page, with keyboard input."""

    def __init__(self, answers, requests, url, width, height):
        self.answers, self.requests, self.pending, self.number, self.errors, self.session, self.events = answers, requests, b"", 0, [], None, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "DOM", "Log"):
            self.ask(domain + ".enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.events.clear()
        self.ask("Page.navigate", url=url)
        end = time.monotonic() + 60
        while "Page.loadEventFired" not in self.events:
            self.read(end)

    def read(self, end):
        """The next message; exceptions of the page and errors in its console are kept."""
        while b"\0" not in self.pending:
            if not select.select([self.answers], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("chromium does not answer")
            some = os.read(self.answers, 1 << 20)
            if not some:
                raise EOFError("chromium has ended")
            self.pending += some
        text, self.pending = self.pending.split(b"\0", 1)
        message = json.loads(text)
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        if method:
            self.events.append(method)
        return message

    def ask(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.requests, json.dumps(request).encode() + b"\0")
        end = time.monotonic() + 60
        while True:
            message = self.read(end)
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]

    def evaluate(self, expression):
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']['text']}")
        return result["result"].get("value")

    def wait(self, expression, seconds=30):
        end = time.monotonic() + seconds
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"not true after {seconds} s: {expression}")
            time.sleep(0.05)

    def key(self, key):
        """Presses a key and releases it."""
        code = KEYS.get(key) or ord(key.upper())
        text = {} if key in KEYS else {"text": key, "unmodifiedText": key}
        self.ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def files(self, selector, paths):
        """Chooses files in a form."""
        root = self.ask("DOM.getDocument")["root"]["nodeId"]
        node = self.ask("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.ask("DOM.setFileInputFiles", nodeId=node, files=paths)

    def shot(self, png, whole=False):
        """A picture of the window, or of the whole page."""
        picture = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **({"clip": self.all()} if whole else {}))
        with open(png, "wb") as f:
            f.write(base64.b64decode(picture["data"]))

    def all(self):
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        return dict(size, scale=1)

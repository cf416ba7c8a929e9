"""A headless Chromium that makes screenshots; nothing of the user's browser is touched."""
import os
import shutil
import subprocess
import tempfile

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--hide-scrollbars"]


def find():
    """Chromium's path, or None."""
    return next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)


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

    def shot(self, url, png, width, height, dark=False, timeout=120):
        """Writes a screenshot of a page in the given size, with the preference for dark colours or light ones."""
        scheme = ["--blink-settings=preferredColorScheme=0"] if dark else ["--blink-settings=preferredColorScheme=1"]
        if os.path.exists(png):
            os.remove(png)
        # Chromium may wait for its helpers after the picture is there.
        command = [self.program, *FLAGS, *scheme, f"--user-data-dir={self.profile}", f"--window-size={width},{height}", f"--screenshot={png}", url]
        try:
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            pass
        if not os.path.exists(png):
            raise RuntimeError(f"chromium made no picture of {url}")

#!/usr/bin/env python3
"""Pictures of pages, in a real browser: screenshots.py PAGE WIDTH HEIGHT light|dark OUT.png
or for several at once: screenshots.py --sizes 1600x1200,1024x1400,500x1600 PAGE ... FOLDER

PAGE: a file or an address. With --sizes every page is taken in light and dark at each size, as FOLDER/NAME-WIDTH-light.png. The browser is Chromium
(the Debian package chromium), or what BROWSER names; without one, there is a line and no failure, unless --must is given. Chromium shows nothing
narrower than 500 pixels. The last line counts the pictures."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--run-all-compositor-stages-before-draw", "--virtual-time-budget=4000")


def browser():
    names = [os.environ["BROWSER"]] if os.environ.get("BROWSER") else ["chromium", "chromium-browser", "google-chrome"]
    return next((found for found in map(shutil.which, names) if found), None)


def address(page):
    return page if "://" in page else pathlib.Path(page).resolve(strict=True).as_uri()


def is_png(path, width, height):
    """Whether the file is a whole picture of this size, and not of one colour: those compress to almost nothing."""
    data = path.read_bytes() if path.exists() else b""
    size = data[16:24] == width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return data[:8] == b"\x89PNG\r\n\x1a\n" and data[-8:-4] == b"IEND" and size and len(data) > 4000


def take(program, page, width, height, scheme, out):
    out = pathlib.Path(out).resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        command = [program, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--blink-settings=preferredColorScheme={int(scheme == 'light')}",
                   f"--screenshot={out}", address(page)]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            print(f"FAIL {page}: no picture within two minutes")
            return False
    if not is_png(out, width, height):
        print(f"FAIL {page} at {width} x {height}, {scheme}: {run.stderr.strip()[-300:]}")
        return False
    return True


def main(args):
    must = "--must" in args
    args = [a for a in args if a != "--must"]
    program = browser()
    jobs = []
    if args[:1] == ["--sizes"] and len(args) >= 4:
        sizes = [tuple(map(int, s.split("x"))) for s in args[1].split(",")]
        for page in args[2:-1]:
            name = pathlib.PurePath(page.split("?")[0].rstrip("/")).stem or "index"
            jobs += [(page, w, h, s, f"{args[-1]}/{name}-{w}-{s}.png") for w, h in sizes for s in ("light", "dark")]
    elif len(args) == 5 and args[3] in ("light", "dark"):
        jobs = [(args[0], int(args[1]), int(args[2]), args[3], args[4])]
    else:
        sys.exit(__doc__)
    if program is None:
        print("screenshots: skipped: no browser (install the package chromium)")
        sys.exit(int(must))
    done = 0
    for n, job in enumerate(jobs, 1):
        print(f"[{n}/{len(jobs)}] {job[4]}", flush=True)
        done += take(program, *job)
    print(f"screenshots: {done} passed, {len(jobs) - done} failed")
    sys.exit(int(done < len(jobs)))


if __name__ == "__main__":
    main(sys.argv[1:])

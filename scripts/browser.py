"""A headless Chromium for screenshots, and for pages that a test types into: Debian's package chromium, or the program
that BROWSER names. Playwright drives it; pip puts that into the cache the first time. The user's own browser is not
touched."""
import contextlib
import os
import shutil
import sys

import processes


def find():
    """The path of Chromium; None if there is none."""
    names = [os.environ["BROWSER"]] if os.environ.get("BROWSER") else ["chromium", "chromium-browser", "google-chrome"]
    return next((p for n in names if (p := shutil.which(n))), None)


def lacking():
    """Why there can be no browser, or nothing."""
    if not find():
        return "chromium is missing (install the package chromium)"
    folder, why = processes.packages("browser", "playwright==1.65.2", "pillow")
    sys.path.insert(0, folder)
    return why


@contextlib.contextmanager
def browser():
    """Gives a function that opens a page in a size, with the preference for dark colours or light ones. It returns
    Playwright's Page, and a list of the page's errors."""
    if why := lacking():
        sys.exit(why)
    from playwright.sync_api import sync_playwright
    with sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=find(), args=["--no-sandbox"])

        def visit(url, width, height, dark=False):
            page, errors = chromium.new_page(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"), []
            page.on("pageerror", lambda e: errors.append(str(e)))
            page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
            page.goto(url)
            return page, errors

        yield visit


def check_colours(c, path, dark, what):
    """Checks by a sample of pixels that a screenshot is not empty, and dark or light as it should be."""
    from PIL import Image
    image = Image.open(path).convert("RGB")
    sample = [image.getpixel((x, y)) for y in range(0, image.height, 9) for x in range(0, image.width, 9)]
    light, colours = sum(map(sum, sample)) / (3 * len(sample)), len(set(sample))
    c.check(colours > 8 and (light < 100 if dark else light > 170), f"{what}: its colours", f"brightness {light:.0f}, {colours} colours")

"""Counts the checks of a test that is a Python script, and prints the result, in one way for all of them.

Each check is a line that begins with PASS or FAIL. The last line of a script is `SUITE: N passed, M failed`, with `, K
skipped` if something was left out, or `SUITE: skipped: REASON` if all of it was. c_tests/run.sh counts the lines of
programs without a suite of their own.
"""


class Checks:
    def __init__(self, suite="", quiet=False):
        """`quiet`: passed checks are counted, not printed."""
        self.suite, self.quiet = suite, quiet
        self.passed = self.failed = 0
        self.skipped = []

    def check(self, good, what, detail=""):
        """Counts one check. `detail` is always printed. Returns whether it passes."""
        good = bool(good)
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        if not good or not self.quiet:
            print(f"{'PASS' if good else 'FAIL'} {what}{f': {detail}' if detail else ''}", flush=True)
        return good

    def sound(self, what, problems):
        """Counts one check that fails if there are problems: a text, or a list of them."""
        problems = [problems] if isinstance(problems, str) and problems else list(problems or [])
        more = f"; and {len(problems) - 40} more" if len(problems) > 40 else ""
        return self.check(not problems, what, ("; " if len(problems) < 4 else "\n    ").join(map(str, problems[:40])) + more)

    def skip(self, what):
        """Notes something that was not checked, with its reason, which `finish` prints."""
        self.skipped.append(what)

    def finish(self):
        """Prints the last line and returns the exit status. A script that checked nothing has failed, unless it gives a
        reason."""
        for what in self.skipped:
            print(f"note: not checked: {what}")
        if not self.passed and not self.failed and not self.skipped:
            self.check(False, "there is something to check")
        left = f", {len(self.skipped)} skipped" if self.skipped else ""
        print(f"{self.suite}{': ' if self.suite else ''}{self.passed} passed, {self.failed} failed{left}", flush=True)
        return int(self.failed > 0)

    def skip_all(self, reason):
        """Instead of `finish`, if nothing can be checked here."""
        print(f"{self.suite}: skipped: {reason}", flush=True)
        return 0


def markdown(columns, rows):
    """A table of Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (columns, ["---"] * len(columns), *rows))

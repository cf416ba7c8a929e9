"""The list of intended differences: lines `KIND PATTERN: REASON`."""
from fnmatch import fnmatchcase

KINDS = ("missing", "extra", "differs", "unseen")


class Allowed:
    def __init__(self, path):
        """`path` None: nothing is meant."""
        self.entries, self.used = [], set()
        if path is None:
            return
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                if line.strip() and not line.startswith("#"):
                    rule, _, reason = line.strip().partition(": ")
                    kind, _, pattern = rule.partition(" ")
                    if kind not in KINDS or not pattern or not reason:
                        raise SystemExit(f"abi: {path}:{number} is not `KIND PATTERN: REASON` with a kind out of {', '.join(KINDS)}")
                    self.entries.append((kind, pattern))

    def has(self, kind, what):
        """Whether an entry allows it; that entry then counts as used. The first that fits counts, so order matters."""
        for entry in self.entries:
            if entry[0] == kind and fnmatchcase(what, entry[1]):
                self.used.add(entry)
                return True
        return False

    def unused(self):
        return [f"{kind} {pattern}: matches nothing any more" for kind, pattern in self.entries if (kind, pattern) not in self.used]

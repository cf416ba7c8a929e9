"""docs/DRIVERS.md from c_tests/vulkan/drivers.json, for scripts/test_drivers.py."""
from processes import ROOT

TEMPLATE = f"{ROOT}/c_tests/vulkan/drivers.md"


def rows(head, lines):
    """A table of Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines]) + "\n"


def cell(figures):
    if figures is None:
        return ""
    bad = [f"{sign}{figures[what]}" for sign, what in (("s", "spills"), ("m", "scratch")) if figures.get(what)]
    used = f"{figures['occupancy']}%" if "occupancy" in figures else f"w{figures['width']}"
    return f"{figures.get('registers', '?')} {used}" + (f" **{' '.join(bad)}**" if bad else "")


def render(data):
    drivers = data["drivers"]
    graphs = list(dict.fromkeys(g for d in drivers.values() for g in d["layers"]))
    layers = [[g] + [f"{d['layers'][g]['dispatches']} / {d['layers'][g]['barriers']}" if g in d["layers"] else "" for d in drivers.values()] for g in graphs]
    shaders = sorted({s for d in drivers.values() for s in d["hot"]})
    formats = []
    for name, d in drivers.items():
        bad = d["formats"]["spilling"]
        worst = max(bad, key=lambda s: bad[s][::-1], default=None)
        counts = [d["formats"]["pipelines"], d["formats"]["half"], *(sum(n[i] > 0 for n in bad.values()) for i in (0, 1))]
        formats.append([name, *map(str, counts), f"{worst}: {bad[worst][1]} bytes, {bad[worst][0]} spills" if worst else ""])
    with open(TEMPLATE, encoding="utf-8") as f:
        return f.read().format(
            mesa=data["mesa"], cards=rows(["driver", "card"], [[name, d["device"]] for name, d in drivers.items()]), dispatches=rows(["graph", *drivers], layers),
            pipelines=rows(["shader", *drivers], [[s] + [cell(d["hot"].get(s)) for d in drivers.values()] for s in shaders]),
            formats=rows(["driver", "pipelines", "shaders below half occupancy", "shaders that spill", "shaders with scratch memory", "worst"], formats))

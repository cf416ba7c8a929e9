"""Checks that the comparisons find differences: copies of our headers and small libraries with one mistake each, and
lists with one entry too many."""
import os
import re
import shutil
import subprocess
import tomllib

from . import debuginfo, headers, names
from .allowed import Allowed

RUSTC = os.environ.get("RUSTC", "rustc")
ALL = {"headers", "names", "debuginfo"}


def run(root, theirs, base, base_info, suppressions, work):
    """theirs: the library of the original's headers, base: its libggml-base. Returns the name of each test, and its
    errors."""
    include = os.path.join(root, "include")
    nobody = Allowed(None)
    right = names.exported(headers.library([include], os.path.join(work, "right.so")))
    with open(os.path.join(root, "c_tests/abi/mistakes.toml"), "rb") as f:
        mistakes = tomllib.load(f)["mistakes"]
    for what, file, name, seen_by, old, new in (m.values() for m in mistakes):
        copy = os.path.join(work, "include")
        shutil.copytree(include, copy, dirs_exist_ok=True)
        path = os.path.join(copy, file)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        changed = re.sub(old, new, text, count=1, flags=re.DOTALL)
        with open(path, "w", encoding="utf-8") as f:
            f.write(changed)
        wrong = headers.library([copy], os.path.join(work, "wrong.so"))
        info = debuginfo.DebugInfo(wrong, work)
        layouts = [text for s in sorted(info.structs) for text in debuginfo.compare_struct(base_info, info, s) or ()]
        said = {
            "headers": headers.differences(theirs, wrong, headers.STRICT, suppressions, work),
            "names": "\n".join(names.compare({"right": right}, names.exported(wrong), nobody)),
            "debuginfo": "\n".join([*debuginfo.compare_functions(base_info, info, right.keys(), nobody)[1], *layouts]),
        }
        silent = [f"{who} does not see it" for who in sorted(seen_by) if name not in said[who]]
        loud = [f"{who} sees {said[who][:200]}" for who in sorted(ALL.difference(seen_by)) if said[who]]
        yield f"seen: {what}", ["the header has no such line"] if changed == text else silent + loud
        if name == "ggml_new_tensor_1d": # with the original's library too; a few seconds
            functions = names.exported(base).keys() & right.keys()
            text = headers.differences(base, wrong, (), [headers.only(functions, ()), *suppressions], work)
            yield f"seen in the original's library: {what}", [] if name in text else [f"only {text[:200]}"]
    yield "seen: mistakes in Rust", _rust(os.path.join(root, "c_tests/abi/wrong.rs"), base_info, nobody, work)
    mine = os.path.join(work, "right.so")
    useless = "[suppress_type]\n  name = ggml_no_such_type\n"
    gone = headers.unused(theirs, mine, headers.STRICT, [], [*suppressions, useless], work)
    yield "seen: a suppression that matches nothing", [] if len(gone) == 1 and "ggml_no_such_type" in gone[0] else [f"only {gone}"]
    path = os.path.join(work, "differences.txt")
    with open(path, "w", encoding="utf-8") as f:
        f.write("missing libggml ggml_one: used\nextra ggml_two: not used\n")
    listed = Allowed(path)
    found = names.compare({"libggml": {"ggml_one": "T", "ggml_four": "T", "ggml_five": "T"}}, {"ggml_three": "T", "ggml_five": "D"}, listed)
    expected = ["ggml_five of libggml is a function there and data here", "ggml_four of libggml is missing", "ggml_three is exported, but not by the original"]
    yield "seen: names", [] if sorted(found) == expected else found
    yield "seen: an entry of differences.txt that matches nothing", [] if listed.unused() == ["extra ggml_two: matches nothing any more"] else ["no"]


def _rust(source, base_info, nobody, work):
    library = os.path.join(work, "libwrong.so")
    r = subprocess.run([*RUSTC.split(), "--edition", "2021", "-A", "warnings", "-C", "debuginfo=2", source, "-o", library], capture_output=True, text=True)
    if r.returncode:
        return [r.stderr[:400]]
    info = debuginfo.DebugInfo(library, work)
    functions, found = debuginfo.compare_functions(base_info, info, names.exported(library).keys(), nobody)
    fields = debuginfo.compare_struct(base_info, info, "ggml_init_params") or []
    if functions != ["ggml_blck_size", "ggml_init", "ggml_nelements"]:
        return [f"compared are {functions}"]
    if [text.split()[0] for text in found] != ["ggml_init", "ggml_nelements"]:
        return found or ["no function"]
    return [] if [text.split()[0] for text in fields] == ["ggml_init_params.mem_size", "ggml_init_params.mem_buffer"] else fields or ["no field"]

"""Compiles headers into a shared library with debug information, which abidiff can read."""
import os
import re
import subprocess

from .names import run

CC, ABIDIFF = os.environ.get("CC", "cc"), os.environ.get("ABIDIFF", "abidiff")
HEADERS = ("ggml.h", "ggml-alloc.h", "ggml-backend.h", "ggml-backend-impl.h", "ggml-cpu.h", "gguf.h", "ggml-opt.h", "ggml-rpc.h", "ggml-vulkan.h")
# For two libraries made of headers. abidiff calls a new value of an enum or a lost `const` harmless.
STRICT = ("--harmless", "--non-reachable-types")
# A definition may not have the first of these attributes. The second remains of GGML_API.
_DEPRECATED = re.compile(r'__attribute__\s*\(\(\s*deprecated\s*\((?:\s*"(?:[^"\\]|\\.)*")+\s*\)\s*\)\)')
_EXPORTED = re.compile(r'__attribute__\s*\(\(\s*visibility\s*\(\s*"default"\s*\)\s*\)\)\s*extern\b([^;{}]*);')


def library(folders, out):
    """Compiles every exported function of the headers, with an empty body, to `out`; types that no function names are
    kept too."""
    include = [a for folder in folders for a in ("-I", folder)]
    text = "".join(f'#include "{h}"\n' for h in HEADERS)
    r = subprocess.run([*CC.split(), "-std=gnu11", "-E", "-P", "-DGGML_SHARED", "-DGGML_BACKEND_SHARED", *include, "-x", "c", "-"], input=text,
                       capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"abi: the headers in {folders[0]} do not compile: {r.stderr[:400]}")
    source = os.path.splitext(out)[0] + ".c"
    with open(source, "w", encoding="utf-8") as f:
        # A prototype becomes a definition.
        f.write(_EXPORTED.sub(r'__attribute__((visibility("default")))\1 { __builtin_trap(); }', _DEPRECATED.sub("", r.stdout)))
    run(*CC.split(), "-std=gnu11", "-w", "-g", "-O0", "-fno-eliminate-unused-debug-types", "-shared", "-fPIC", source, "-o", out)
    return out


def sections(path):
    """The entries of a file of suppressions for abidiff. The comment before each entry is its reason."""
    entries, reason = [], False
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.startswith("["):
                if not reason:
                    raise SystemExit(f"abi: an entry of {path} has no reason: {line.strip()}")
                entries.append("")
            reason = line.startswith("#")
            if entries and not reason:
                entries[-1] += line
    return entries


def differences(one, other, options, suppressions, work):
    """The report of abidiff about two libraries. Empty if they are the same."""
    path = os.path.join(work, "now.suppr")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(suppressions))
    # The exit status is a set of bits: 4 and 8 are changes.
    status, text = run(ABIDIFF, "--fail-no-debug-info", "--ignore-soname", "--no-unreferenced-symbols", "--no-default-suppression", *options, "--suppressions", path, one, other,
                       accept=(0, 4, 8, 12))
    return text if status else ""


def unused(one, other, options, fixed, suppressions, work):
    """Entries that can go without a new report from abidiff."""
    gone = []
    for n, entry in enumerate(suppressions):
        if not differences(one, other, options, fixed + suppressions[:n] + suppressions[n + 1:], work):
            gone.append(f"{' '.join(entry.split())}: matches nothing any more")
    return gone


def only(functions, data):
    """A suppression that leaves nothing but these functions. Variables are named one by one: a pattern for all of them
    hides functions too."""
    text = f"[suppress_function]\n  symbol_name_not_regexp = ^({'|'.join(sorted(functions))})$\n  drop = yes\n"
    return text + (f"\n[suppress_variable]\n  symbol_name_regexp = ^({'|'.join(sorted(data))})$\n  drop = yes\n" if data else "")


def briefly(text):
    """The lines that name what changed, for a report."""
    lines = [line.strip() for line in text.splitlines() if re.match(r"\s+\[[CDA]\] |\s.*(changed|data member|enumerator|inserted|deleted|removed|added)", line)]
    return "\n    ".join(line[:200] for line in lines[:24]) or text[:1000]

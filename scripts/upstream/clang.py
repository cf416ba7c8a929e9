"""libclang, which reads C and C++ for this tool: Python's package of that name, fetched by pip into the cache once."""
import functools
import os
import sys

from fetch import die
from processes import cache, packages

VERSION = "18.1.1"
# One file: no #include is followed, and of an #if whose condition is unknown, every branch is read
# (CXTranslationUnit_SingleFileParse).
SINGLE = 0x400
# A missing header ends nothing (KeepGoing); macros are kept; the bodies of inline functions in headers are left out.
_KEEP_GOING, MACROS, NO_BODIES = 0x200, 0x01, 0x40


@functools.cache
def cindex():
    """The module clang.cindex."""
    name = f"tools/libclang-{VERSION}"
    if not os.path.isdir(os.path.join(cache(), name)):
        print(f"fetching libclang {VERSION} (25 MB) ...", file=sys.stderr, flush=True)
    folder, problem = packages(name, f"libclang=={VERSION}")
    if problem:
        die(f"{problem}; it needs the network and the package python3-pip")
    sys.path.insert(0, folder)
    try:
        import clang.cindex
        clang.cindex.conf.lib # loads the library
    except Exception as e: # whatever a damaged folder leads to
        die(f"libclang does not load ({e}); remove {folder} and run this again")
    return clang.cindex


def parse(name, text, options, root):
    """What libclang makes of a text under that name, for x86-64 Linux and without any header of this machine."""
    language = ["-x", "c", "-std=gnu2x"] if name.endswith(".c") else ["-x", "c++", "-std=gnu++17"]
    library = os.path.join(os.path.dirname(os.path.abspath(__file__)), "library.h")
    command = [*language, "-target", "x86_64-linux-gnu", "-nostdinc", "-w", "-ferror-limit=0", "-include", library,
               f"-I{root}/include", f"-I{root}/src"]
    return cindex().Index.create().parse(name, command, [(name, text)], _KEEP_GOING | options)

"""libclang, which reads C and C++ for this tool: Python's package of that name, fetched by pip into the cache once."""
import contextlib
import functools
import os
import shutil
import subprocess
import sys

from fetch import die, locked

VERSION = "18.1.1"
# One file: no #include is followed, and of an #if whose condition is unknown, every branch is read
# (CXTranslationUnit_SingleFileParse).
SINGLE = 0x400
# A missing header ends nothing (KeepGoing); macros are kept; the bodies of inline functions in headers are left out.
_KEEP_GOING, MACROS, NO_BODIES = 0x200, 0x01, 0x40

# Of the libraries' headers, which are not read: what ggml takes from them where it declares something.
_LIBRARY = """
%s typedef __SIZE_TYPE__ size_t; typedef __PTRDIFF_TYPE__ ptrdiff_t; typedef __builtin_va_list va_list; typedef struct _IO_FILE FILE;
#define NULL ((void *) 0)
#define GGML_SHARED
#define GGML_BACKEND_SHARED
#define GGML_COMMON_DECL_C
#define GGML_COMMON_IMPL_C
#ifdef __cplusplus
namespace std { class string; class thread; class mutex; %s }
#endif
""" % (" ".join(f"typedef __{u}INT{n}_TYPE__ {u.lower()}int{n.lower()}_t;" for u in ("", "U") for n in ("8", "16", "32", "64", "PTR")),
       " ".join(f"template <class...> class {name};" for name in ("vector", "map", "set", "unordered_map", "unordered_set", "pair", "tuple", "function", "deque",
                                                                   "unique_ptr", "shared_ptr", "optional", "atomic")))


def cache():
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return os.path.abspath(os.environ.get("GGML_CACHE") or os.path.join(here, "target", "cache"))


def _install(folder):
    pip = "-m pip install --quiet --disable-pip-version-check --no-deps --target".split()
    with contextlib.redirect_stdout(sys.stderr), locked(os.path.dirname(folder)):
        if os.path.isdir(folder):
            return
        print(f"fetching libclang {VERSION} (25 MB) ...", flush=True)
        shutil.rmtree(folder + ".new", ignore_errors=True)
        r = subprocess.run([sys.executable, *pip, folder + ".new", f"libclang=={VERSION}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if r.returncode != 0:
            last = (r.stdout.strip().splitlines() or ["no reason given"])[-1]
            die(f"cannot fetch libclang {VERSION} with pip, which needs the network and the package python3-pip (its last line: {last})")
        os.replace(folder + ".new", folder)


@functools.cache
def cindex():
    """The module clang.cindex."""
    folder = os.path.join(cache(), "tools", f"libclang-{VERSION}")
    if not os.path.isdir(folder):
        _install(folder)
    sys.path.insert(0, folder)
    try:
        import clang.cindex
        clang.cindex.conf.lib # loads the library
    except Exception as e: # whatever a damaged folder leads to
        die(f"libclang does not load ({e}); remove {folder} and run this again")
    return clang.cindex


def parse(name, text, options, *arguments):
    """What libclang makes of a text under that name, for x86-64 Linux and without any header of this machine."""
    language = ["-x", "c", "-std=gnu2x"] if name.endswith(".c") else ["-x", "c++", "-std=gnu++17"]
    return cindex().Index.create().parse(name, [*language, "-target", "x86_64-linux-gnu", "-nostdinc", "-w", "-ferror-limit=0", "-include/library.h", *arguments],
                                         [(name, text), ("/library.h", _LIBRARY)], _KEEP_GOING | options)

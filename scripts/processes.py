"""Programs that tests run and compile, and servers that they start."""
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time

from fetch import locked

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def output(*command, **more):
    """What a program that must succeed prints."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, **more).stdout


def known(*patterns):
    """The files of the repository that one of the patterns matches, and new ones that git does not ignore."""
    files = output("git", "ls-files", "-coz", "--exclude-standard", *patterns, cwd=ROOT).split("\0")[:-1]
    return [file for file in files if os.path.isfile(f"{ROOT}/{file}")]


def rust_host():
    """The system that rustc compiles for, by Rust's name."""
    return output("rustc", "-vV").partition("host: ")[2].split()[0]


def compiled(out, source, *flags):
    """A program or library from c_tests in C11 or C++17: its path."""
    compiler, standard = (("CXX", "c++"), "c++17") if source.endswith(".cpp") else (("CC", "cc"), "c11")
    os.makedirs(os.path.dirname(out), exist_ok=True)
    subprocess.run([*os.environ.get(*compiler).split(), f"-std={standard}", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include",
                    f"{ROOT}/c_tests/{source}", "-o", out, *flags], check=True)
    return out


def card(folder, *flags):
    """The simulated card of c_tests, in a folder: variables of the environment with which hosts have it."""
    module = compiled(f"{folder}/libcard.so", "card/card.c", *flags, "-shared", "-fPIC", "-Wl,-z,nodelete", "-lpthread", "-lm")
    return {"GGML_BACKEND_PATH": module, "CARD_MODE": "values", "CARD_REALTIME": "0", "CARD_MEMORY_MIB": "512"}


def layer(folder, name):
    """A layer for Vulkan from c_tests/vulkan."""
    compiled(f"{folder}/lib{name}.so", f"vulkan/{name}.c", "-fPIC", "-shared", "-fvisibility=hidden", "-lpthread")
    shutil.copy(f"{ROOT}/c_tests/vulkan/{name}.json", folder)


def cache():
    """The folder of downloads and builds."""
    return os.environ.get("GGML_CACHE") or f"{ROOT}/target/cache"


def packages(name, *wanted):
    """A folder of Python packages in the cache, which pip fetches the first time; and pip's output if it fails, or
    nothing."""
    folder, list_of = f"{cache()}/{name}", "\n".join(wanted)
    with locked(os.path.dirname(folder)):
        with contextlib.suppress(OSError), open(f"{folder}/wanted.txt") as f:
            if f.read() == list_of:
                return folder, ""
        shutil.rmtree(folder + ".part", ignore_errors=True) # of an interrupted run
        r = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", folder + ".part", *wanted],
                           capture_output=True, text=True)
        if r.returncode != 0:
            return folder, f"pip cannot fetch {' '.join(wanted)} ({(r.stderr.strip().splitlines() or ['no message'])[-1][:200]})"
        with open(f"{folder}.part/wanted.txt", "w") as f:
            f.write(list_of)
        shutil.rmtree(folder, ignore_errors=True) # of another list
        os.rename(folder + ".part", folder)
        return folder, ""


def tool(name, version, *options, right=lambda path: True):
    """The path of a program that cargo can install: the one on PATH if it is right, or one in the cache."""
    tools = f"{cache()}/tools"
    for program in (name, f"{tools}/bin/{name}"):
        if (path := shutil.which(program)) and right(path):
            return path
    cargo = os.environ.get("CARGO") or "cargo"
    if not shutil.which(cargo):
        sys.exit(f"{name} {version} is missing, and cargo to install it: install Rust (https://rustup.rs)")
    print(f"installing {name} {version} into the cache (some minutes, once) ...", flush=True)
    env = dict(os.environ, CARGO_PROFILE_RELEASE_OPT_LEVEL="1", CARGO_PROFILE_RELEASE_DEBUG="0")
    env.pop("CARGO_TARGET_DIR", None)
    r = subprocess.run([cargo, "install", "--quiet", "--locked", name, "--version", version, *options, "--root", tools, "--target-dir", f"{tools}/build"], env=env)
    if r.returncode != 0:
        sys.exit(f"cargo could not install {name} {version}; put one on PATH, or try again with a network")
    shutil.rmtree(f"{tools}/build", ignore_errors=True)
    return f"{tools}/bin/{name}"


@contextlib.contextmanager
def running(command, log, ready, seconds, **more):
    """A server until the block ends: its process, once it is ready or the time is over. What it says goes to a file."""
    with open(log, "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, **more)
    try:
        last = time.monotonic() + seconds
        while not ready() and process.poll() is None and time.monotonic() < last:
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port():
    with contextlib.closing(socket.socket()) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

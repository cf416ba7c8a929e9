#!/usr/bin/env python3
"""make sbom: a bill of materials of the library, CycloneDX in JSON, in target/sbom. cargo-cyclonedx is the one on PATH,
or is installed into the cache."""
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from processes import ROOT, tool

os.chdir(ROOT)
with open("Cargo.toml", "rb") as manifest, open("Cargo.lock", "rb") as lock:
    name = f"libggml-rs-{tomllib.load(manifest)['package']['version']}.cdx"
    locked = {p["name"] for p in tomllib.load(lock)["package"]}
os.makedirs("target/sbom", exist_ok=True)
# It writes beside Cargo.toml, for each crate of the workspace.
subprocess.run([tool("cargo-cyclonedx", "0.5.9"), "cyclonedx", "--format", "json", "--all-features", "--target", os.environ.get("CARGO_TARGET") or "x86_64-unknown-linux-gnu",
                "--override-filename", name, "--quiet"], check=True)
os.replace(f"{name}.json", f"target/sbom/{name}.json")
os.remove(f"macros/{name}.json")
bill = Path(f"target/sbom/{name}.json")
# It names no folder of this machine.
text = bill.read_text(encoding="utf-8").replace(Path(ROOT).as_uri(), "file:///libggml-rs")
bill.write_text(text, encoding="utf-8")
names = {c["name"] for c in json.loads(text)["components"]}
if missing := {"ash", "half", "libc", "object", "serde_json"} - names | names - locked:
    sys.exit(f"sbom: missing, or not in Cargo.lock: {missing}")
print(f"target/sbom/{name}.json: {len(names)} crates")

# libggml-rs. `make help` lists the targets, from the lines with ## below, and these settings:
#
#   MODEL=file.gguf    make run: the model, instead of MiniLM       SENTENCES="one|two"  the sentences to compare
#   DEVICE=Vulkan0     make run: use this device, even a software driver; DEVICE=CPU: use only the CPU
#   REPORT=file.html   make run: what runs where, and why          TRACE=file.json      a timeline for ui.perfetto.dev
#   PREFIX, DESTDIR, LIBDIR, INCLUDEDIR   where make install installs, and make uninstall removes (LIBDIR and INCLUDEDIR
#                      are relative to PREFIX)                 STRIP=1   install without debug information
#   CARGO_FLAGS=--no-default-features   make: without the Vulkan backend
#   CARGO_TARGET=aarch64-unknown-linux-gnu   make, make install: for another processor (docs/INSTALL.md)
#   GGML_MAX_NAME=128  another size of tensors' names (64), beside the usual one: docs/INSTALL.md
#   GGML_CACHE=DIR     where downloads and builds for the tests are kept (default: target/cache)

PREFIX     ?= /usr/local
LIBDIR     ?= lib
INCLUDEDIR ?= include
CARGO      ?= cargo
# File names and sentences reach the scripts unchanged: neither the shell nor make expands them.
override MODEL := $(value MODEL)
override SENTENCES := $(value SENTENCES)
override REPORT := $(value REPORT)
override TRACE := $(value TRACE)
export CARGO CARGO_FLAGS CARGO_TARGET DESTDIR STRIP MODEL SENTENCES REPORT TRACE DEVICE
export PYTHONDONTWRITEBYTECODE = 1
# An empty one is another environment for cargo, which would build again what a script has built without make.
ifneq ($(GGML_MAX_NAME),)
export GGML_MAX_NAME
else
unexport GGML_MAX_NAME
endif

.PHONY: all run test bench bench-cpu bench-memory bench-ops bench-experts test-vulkan test-drivers test-aarch64 test-windows test-peers-all test-diff-all test-abi test-package test-packs test-msrv test-cinstall test-debian debian-symbols check-macos check-android fuzz soak headers check-headers status check-status shaders check-shaders upstream-diff upstream-facts install uninstall book sbom wheel npm tarball windows dist clean help

## all: the release build, in target/release (also plain make)
all:
	@scripts/build.sh

## run: a real model in a plain C program: prints how similar some sentences are
run:
	@exec env DESTDIR= scripts/run_embed.sh

## test: everything that CI checks; SUITES="headers c" for some of it
# docs/TESTS.md lists the suites.
test:
	@DESTDIR= scripts/test.sh $(SUITES)

## test-vulkan: all tests of the Vulkan backend
# On the driver that GGML_VK_VISIBLE_DEVICES names (default 0: the first one, even a
# software driver).
test-vulkan:
	@DESTDIR= GGML_TEST_VULKAN=1 VULKAN_EXTENT=all scripts/test.sh vulkan

## test-drivers: how Mesa's drivers for cards compile the Vulkan backend's shaders, without a card
# On no-op kernel devices, compared with docs/DRIVERS.md (three minutes and a download).
# DRIVERS=write: writes the table. DRIVERS="all navi31": only this one.
test-drivers:
	@DESTDIR= DRIVERS="$(or $(DRIVERS),all)" scripts/test.sh drivers

## test-aarch64: everything for 64-bit ARM in qemu: cross build, unit tests, hosts, llama.cpp, RPC with x86-64 (an hour)
# CI runs a part; AARCH64="units c": these sections of scripts/test_aarch64.sh.
test-aarch64:
	@DESTDIR= AARCH64="$(or $(AARCH64),all)" scripts/test.sh aarch64

## test-windows: the library for Windows in Wine: cross build, hosts, llama.cpp, RPC with Linux
# WINDOWS="files c": these sections of scripts/test_windows.sh.
test-windows:
	@DESTDIR= WINDOWS="$(or $(WINDOWS),all)" scripts/test.sh windows

## test-peers-all: every case of the original's test-backend-ops, every architecture (hours)
## test-diff-all: every case of our comparison of operations with the original
# CI runs only samples of these: every case of the original's test-backend-ops (hours on two cores) and the states of
# every architecture; every case of our own comparison of operations.
test-peers-all:
	@DESTDIR= PEERS="sampler models-all grad-all ops-all" scripts/test.sh peers
test-diff-all:
	@DESTDIR= DIFF_ALL=1 C_TESTS=ops scripts/test.sh c

## test-abi: exported names, functions, layouts and enums against a build of the original
test-abi:
	@DESTDIR= scripts/test.sh abi

## test-package: both crates as a registry would get them
## test-packs: wheel, npm package and tarball: installed and used, here and on an older system
## test-msrv: the oldest supported Rust
## test-cinstall: cargo cinstall
## test-debian: the Debian packages are built, installed, used and removed
test-package test-packs test-msrv test-cinstall test-debian:
	@DESTDIR= scripts/test.sh $(@:test-%=%)

## check-macos: the files for macOS on 64-bit ARM, built and read here, and the shaders in Metal's language
## check-android: the files for Android on 64-bit ARM, built and read here
check-macos check-android:
	@DESTDIR= scripts/check_platform.sh $(@:check-%=%)

## debian-symbols: updates the symbols files of the Debian packages, after a function has been added
debian-symbols: all
	@scripts/test_debian.sh symbols

## fuzz: all fuzz targets at once, for HOURS=1 (a fraction is allowed); what they find is kept
fuzz:
	@python3 scripts/fuzz.py -h "$(or $(HOURS),1)"

## soak: schedulers, threads and graphs without end, for MINUTES=10; SOAK=soak_card: experts on a simulated card
soak: all
	@DESTDIR= scripts/install.sh target/install
	@SOAK_SECONDS=$$(awk 'BEGIN { print 60 * $(or $(MINUTES),10) }') c_tests/run.sh $(or $(SOAK),soak)

## bench: the cost of graphs, compared with the original
bench:
	@DESTDIR= scripts/bench.sh $(BENCH)

## bench-cpu: llama-bench on the CPU, compared with the original; BENCH=--short takes three minutes
bench-cpu:
	@DESTDIR= scripts/bench.sh cpu $(BENCH)

## bench-memory: peak memory, starts, and models larger than memory, compared with the original; BENCH="--formats Q8_0"
bench-memory:
	@DESTDIR= scripts/bench.sh memory $(BENCH)

## bench-ops: each other operation alone, compared with the original; BENCH="--turns 3 -t 1 -k NAME_PART"
bench-ops:
	@DESTDIR= scripts/bench.sh ops $(BENCH)

## bench-experts: models larger than a simulated card, compared with the original; BENCH="--shares 5,10 --turns 5"
bench-experts:
	@DESTDIR= scripts/bench.sh experts $(BENCH)

## headers: generates include/*.h from the Rust sources and scripts/outlines/
## check-headers: whether they are current
headers:
	$(CARGO) run --quiet --profile tools --features internals --example headers

check-headers:
	@rm -rf target/headers
	@$(CARGO) run --quiet --profile tools --features internals --example headers -- src target/headers > /dev/null
# The others are written by hand.
	@for h in include/*.h; do grep -q '^// Generated by' "$$h" || cp "$$h" target/headers/; done
	@diff -ru include target/headers || { echo "the headers in include/ do not match the sources: run make headers"; exit 1; }

## status: generates docs/STATUS.md, docs/ENVIRONMENT.md, docs/DRIVERS.md and README's table of swapped hosts
# From the sources, the library's tables, and the last results of the suites swaps and drivers.
## check-status: whether they are current
status:
	$(CARGO) run --quiet --profile tools --features internals --example status -- write
	$(CARGO) run --quiet --profile tools --features internals --example environment -- write

check-status:
	@$(CARGO) run --quiet --profile tools --features internals --example status -- check
	@$(CARGO) run --quiet --profile tools --features internals --example environment -- check

## shaders: compiles vulkan_shaders/ to SPIR-V, packed in src/vulkan/spirv/ (the first run builds glslang)
## check-shaders: whether they are current
SHADERS = $(CARGO) run --quiet --release --manifest-path tools/shaders/Cargo.toml --
shaders:
	$(SHADERS) .

check-shaders:
	@$(SHADERS) --check .

## upstream-diff: what changed in the original; VERSION=0.12.0, or DIR=path
# VERSION (of the crate that scripts/fetch.py pins; CRATE=name names another), or DIR=path of a tree. BASE=path, or
# BASE_CRATE and BASE_VERSION: what to compare with; CHECK=1: any change is a failure. docs/UPSTREAM.md.
upstream-diff:
	@python3 scripts/upstream_diff.py

## upstream-facts: generates the lists in c_tests/abi from the pinned original; CHECK=1 writes nothing
upstream-facts:
	@python3 scripts/upstream_diff.py facts

## book: builds the book of docs/ in target/book, after checking its links
book:
	@python3 scripts/book.py

## sbom: a bill of materials (CycloneDX) in target/sbom
sbom:
	@python3 scripts/sbom.py

# In target/dist, for systems with glibc 2.28 or later. Needs pip; `npm` too.
## wheel: the Python package
## npm: the package for Node.js
## tarball: the archive for everything else, with its debug symbols apart
## windows: an archive for Windows on x86-64 (needs MinGW)
wheel npm tarball windows:
	@scripts/dist.sh $@

## dist: all packages of a release, and the sources
dist:
	@scripts/dist.sh

# Copies the build, and builds only if there is none, so that root needs no compiler.
## install: installs into PREFIX=/usr/local
install:
	@scripts/build.sh if-needed
	@scripts/install.sh "$(PREFIX)" "$(LIBDIR)" "$(INCLUDEDIR)"

## uninstall: removes what make install has installed into PREFIX
uninstall:
	@scripts/install.sh -r "$(PREFIX)" "$(LIBDIR)"

## clean: removes target/, with its cache
clean:
	$(CARGO) clean

## help: this list
help:
	@sed -n 's/^## \([a-z0-9-]*\): \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "make %-16s %s\n", $$1, $$2 }'
	@echo
	@sed -n '2,/^$$/s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

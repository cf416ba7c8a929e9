# libggml-rs. The commands a newcomer wants: make, make run, make test, make install PREFIX=...
#
#   MODEL=file.gguf    what make run reads instead of MiniLM        SENTENCES="one|two"  what it compares
#   DEVICE=Vulkan0     make run: on that device, also when it is a software driver; DEVICE=CPU: no other than the CPU
#   REPORT=file.html   make run: what was placed where, and why    TRACE=file.json      what ran when (for ui.perfetto.dev)
#   PREFIX, DESTDIR, LIBDIR, INCLUDEDIR   where make install puts things (LIBDIR and INCLUDEDIR relative to PREFIX), and where
#                      make uninstall finds them               STRIP=1   install without names and lines for debuggers
#   GGML_MAX_NAME=128  another length of tensors' names (64); hosts must be compiled with the same: docs/INSTALL.md
#   GGML_CACHE=DIR     where downloads and builds for the tests are kept (default: target/cache)

PREFIX     ?= /usr/local
LIBDIR     ?= lib
INCLUDEDIR ?= include
CARGO      ?= cargo
export CARGO DESTDIR STRIP GGML_MAX_NAME REPORT TRACE DEVICE

.PHONY: all run test bench test-vulkan test-peers-all test-diff-all headers check-headers status check-status shaders check-shaders install uninstall clean help

all:
	@scripts/build.sh

# The library, a real model and a plain C host: prints how alike some sentences are.
run: all
	@DESTDIR= scripts/run_embed.sh $(MODEL)

# Everything that CI checks. make test SUITES="headers c" runs some of it; scripts/test.sh lists them.
test:
	@DESTDIR= scripts/test.sh $(SUITES)

# All of the Vulkan backend's tests, on the driver that GGML_VK_VISIBLE_DEVICES names (default 0: the first one, also when it
# is a software driver).
test-vulkan:
	@DESTDIR= GGML_TEST_VULKAN=1 VULKAN_EXTENT=all scripts/test.sh vulkan

# The whole of what CI runs a sample of: every case of the original's test-backend-ops (hours on two cores) and the states of every
# architecture; every case of our own comparison of operations.
test-peers-all:
	@DESTDIR= PEERS="sampler models-all grad-all ops-all" scripts/test.sh peers
test-diff-all:
	@DESTDIR= DIFF_ALL=1 C_TESTS=ops scripts/test.sh c

# What graphs cost, against the original: docs/BENCHMARKS.md.
bench:
	@DESTDIR= scripts/bench.sh $(BENCH)

# The C headers, from the Rust sources.
headers:
	$(CARGO) run --quiet --example headers

check-headers:
	@rm -rf target/headers
	@$(CARGO) run --quiet --example headers -- src target/headers > /dev/null
	@cp include/ggml-cpp.h target/headers/
	@diff -ru include target/headers || { echo "the headers in include/ are not those of the sources: run make headers"; exit 1; }

# The list of what is there and what is not, from the sources and the library's own tables.
status:
	$(CARGO) run --quiet --example status -- write

check-status:
	@$(CARGO) run --quiet --example status -- check

# SPIR-V from vulkan_shaders/, packed into src/vulkan/spirv/. The first time builds glslang, which takes some minutes.
SHADERS = $(CARGO) run --quiet --release --manifest-path tools/shaders/Cargo.toml --
shaders:
	python3 scripts/shader_grids.py
	$(SHADERS) .

check-shaders:
	python3 scripts/shader_grids.py check
	@$(SHADERS) --check .

# Copies what is built; builds only what is not, so that root needs no compiler.
install:
	@scripts/build.sh if-needed
	@scripts/install.sh "$(PREFIX)" "$(LIBDIR)" "$(INCLUDEDIR)"

uninstall:
	@scripts/uninstall.sh "$(PREFIX)" "$(LIBDIR)"

clean:
	$(CARGO) clean

help:
	@sed -n '/^# libggml-rs/,/^$$/p' Makefile

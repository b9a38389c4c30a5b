# Every target does its own set-up; nothing needs an activated environment.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
EXTRAS := data,metaworld,dev

.PHONY: setup demo test test-slow check format bench docs clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt packages/oatkit-client/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]' --editable packages/oatkit-client
	touch $(STAMP)

demo: setup
	$(BIN)/oatkit demo

test: setup
	$(BIN)/python -m pytest -n auto -m 'not slow and not sim'

test-slow: setup
	$(BIN)/python -m pytest -n auto -m 'slow or sim'

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m benchmarks.data_memory
	$(BIN)/python -m benchmarks.data_sampling
	$(BIN)/python -m benchmarks.report

docs: setup
	$(BIN)/mkdocs build --quiet --strict
	@echo "wrote out/site/index.html"

clean:
	rm -rf .venv out build dist

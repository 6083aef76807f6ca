# make demo   install into .venv and run the main job on embedded defaults
# make test   install into .venv and run all tests
# make lint   ruff and mypy
# make smoke  try every shipped study at its smallest scale
# make docs   rewrite the tables that are generated from the code

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# tests run side by side in processes; one thread each, or they would wait for each other
WORKERS ?= 2

.PHONY: demo test lint docs smoke

demo: $(INSTALLED)
	$(BIN)/manyheads demo

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

smoke: $(INSTALLED)
	$(BIN)/manyheads study smoke --output studies/smoke

docs: $(INSTALLED)
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/draw_samplers.py

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

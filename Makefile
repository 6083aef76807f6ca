# make demo   install into .venv and run the main job on embedded defaults
# make serve-demo  serve the demo's model at http://127.0.0.1:8000, after training it where there is none
# make test   install into .venv and run all tests; they pass on any x86-64, ARM is untested
# make test-portable  the numeric tests again, with other instructions and threads
# make test-quick     everything that is not marked slow: what to run after an edit
# make lint   ruff and mypy
# make smoke  try every shipped study at its smallest scale
# make docs   rewrite the tables that are generated from the code
# make defaults       after a key or an option was added: write its default into version 0.1's, as what it did before
# make paper-recipes  rewrite the stored copy of the shipped studies' recipes, with every default written out
# make bench        side by side with rivals, tables into docs/benchmarks.md; DATA=FOLDER takes the course's csv files
# make bench-quick  the main ratios in a few minutes: did a change cost speed?
# make bench-serve  the server beside Infinity and LitServe, each in an environment of its own; DATA=FOLDER as above
# make gpu-check    for someone with a GPU: parity, mixed precision, one epoch

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# tests run side by side in processes; one thread each, or they would wait for each other
WORKERS ?= 2
# tests start hundreds of processes: with bytecode on disk each of them starts sooner
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo serve-demo test test-quick test-portable lint docs defaults paper-recipes smoke bench bench-quick bench-serve gpu-check

demo: $(INSTALLED)
	$(BIN)/manyheads demo

serve-demo: $(INSTALLED)
	test -d runs/demo/best || $(BIN)/manyheads demo
	$(BIN)/manyheads serve runs/demo

test: $(INSTALLED)
	PYTHONUTF8=1 OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

test-quick: $(INSTALLED)
	PYTHONUTF8=1 OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal -m 'not slow'

test-portable: $(INSTALLED)
	$(BIN)/python tools/test_portable.py --workers $(WORKERS)

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

smoke: $(INSTALLED)
	$(BIN)/manyheads study smoke

docs: $(INSTALLED)
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/draw_samplers.py

defaults: $(INSTALLED)
	$(BIN)/python tools/freeze_defaults.py

paper-recipes: $(INSTALLED)
	$(BIN)/python tests/paper_recipes.py

RIVALS := .venv/.rivals
ON := $(if $(DATA),--data $(DATA))

bench: $(RIVALS)
	$(BIN)/python benchmarks/train.py $(ON) --write
	$(BIN)/python benchmarks/infer.py $(ON) --write
	$(BIN)/python benchmarks/where_time_goes.py $(ON) --write
	$(BIN)/python benchmarks/same_losses.py $(ON) --write
	$(BIN)/python benchmarks/many_tasks.py --write
	$(BIN)/python benchmarks/combine.py $(ON) --write
	$(BIN)/python benchmarks/regularise.py $(ON) --write
	$(if $(DATA),$(BIN)/python benchmarks/frozen.py $(ON) --write)
	$(BIN)/python benchmarks/scale.py --write

bench-quick: $(RIVALS)
	$(BIN)/python benchmarks/train.py $(ON) --turns 3 --steps 2 --only mix
	$(BIN)/python benchmarks/infer.py $(ON) --turns 3 --pairs 64 --only infer

bench-serve: $(RIVALS)
	$(BIN)/python benchmarks/serve.py $(ON)

gpu-check: $(INSTALLED)
	$(BIN)/python benchmarks/gpu_check.py

# smart-pytorch's other requirement is stubs for type checkers that shadow numpy's own
$(RIVALS): $(INSTALLED)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps smart-pytorch==0.0.4
	touch $@

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

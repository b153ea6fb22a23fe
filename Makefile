PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
LANGUAGE := .venv-language
MODELS := .venv-models

.PHONY: demo test test-language test-slow coverage properties properties-engine fuzz lint bench models accelerator editors clean

demo: $(INSTALLED)
	$(BIN)/collage demo

# Twice as many processes as processors, because tests wait for processes of their own; but at most
# four, since each loads TVM. The tests of a file share fixtures.
WORKERS := $(shell echo $$(($$(nproc) < 2 ? 2 : 4)))
test: $(INSTALLED) lint
	$(BIN)/pytest -n $(WORKERS) --dist loadfile

test-slow: $(INSTALLED)
	$(BIN)/pytest -m "slow and not properties and not fuzz"

# The language alone, in an environment of its own: without TVM, and the tests that need none.
test-language: $(LANGUAGE)/installed
	$(LANGUAGE)/bin/pytest --language

# Fails where less than 95 % of the branches of one of these packages are taken.
MEASURED := rules graph search
coverage: $(INSTALLED)
	$(BIN)/pytest --cases 100 $(MEASURED:%=--cov=collage_dsl.%) --cov-branch --cov-report=json:coverage.json
	$(BIN)/python scripts/branches.py coverage.json 95 $(MEASURED)

# Each property of the language on 10 000 random cases, and each of the engine on 2 000; the numbers
# of CPU seconds are those of a quiet machine.
ENGINE := $(addprefix tests/test_,combine.py engine_properties.py partition_properties.py \
	pictures.py regions.py search_strategies.py)

properties: $(INSTALLED)
	$(BIN)/pytest -m properties --cases 10000 $(addprefix --ignore=,$(ENGINE))

properties-engine: $(INSTALLED)
	$(BIN)/pytest -m properties --cases 2000 $(ENGINE)

# Damaged models, tables, folders and texts, and valid random models of all operators: 10 s of CPU
# time and 1 GiB of memory a case.
fuzz: $(INSTALLED)
	$(BIN)/pytest -m fuzz tests/test_fuzz.py

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=benchmarks $(BIN)/mypy benchmarks/*.py benchmarks/kernels/*.py

bench: $(INSTALLED)
	$(BIN)/python benchmarks/native_kernels.py

# Models as PyTorch exports them, and quantized ones: compiled, and compared with onnxruntime. Takes
# hours, and 5 GB of disk for PyTorch and the models. With ARGS=--unmeasured, it takes half an hour.
models: $(MODELS)/installed
	$(MODELS)/bin/python benchmarks/every_model.py $(ARGS)

# The fusions of examples/accelerator.collage in models of real size, beside those that plain loops
# find. Takes a quarter of an hour.
accelerator: $(MODELS)/installed
	$(MODELS)/bin/python benchmarks/accelerator.py $(ARGS)

# Before the package, so that its versions of onnx and numpy are those that stay.
$(MODELS)/torch: benchmarks/requirements-models.txt
	test -x $(MODELS)/bin/python || $(PYTHON) -m venv $(MODELS)
	$(MODELS)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

# Needs Node.js. Tests the highlighting, and packages the extension of VS Code.
editors:
	cd editors/vscode && npm install --no-audit --no-fund && npm test && npm run build && npm run package

# The built package is what runs and what is tested: installed anew when a source changes.
SOURCES := pyproject.toml \
	$(shell find collage_dsl completions grammars specs -type f -not -name '*.pyc')

$(INSTALLED): EXTRAS := dev
$(LANGUAGE)/installed: EXTRAS := lsp,test
$(MODELS)/installed: EXTRAS := tvm
$(MODELS)/installed: $(MODELS)/torch
%/installed: $(SOURCES)
	test -x $*/bin/python || $(PYTHON) -m venv $*
	$*/bin/python -m pip install --quiet --disable-pip-version-check '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf $(VENV) $(LANGUAGE) $(MODELS) build dist .mypy_cache .pytest_cache .ruff_cache

# The commands of this project. Each does all the set-up it needs: a Python environment in .venv and
# a build in build/dev.
#   make ds2       the main job: the DeepSpeech2 benchmark, native operator against ours
#   make bench-peers  all benchmarks, against other frameworks too, into docs/benchmarks.md
#   make bench-kernels  every kernel by itself, against the processor's peaks, into docs/kernels.md
#   make test      the C++ and the Python tests
#   make fuzz N=5000   that many random configurations
#   make build     a rebuild of what has changed
#   make lint      format, style and include checks;  make format  applies the formats
#   make sanitize  the C++ tests under AddressSanitizer
#   make docs      the documentation site, in build/docs; warnings are errors
#   make wheel     a wheel in dist, tried in a new environment
#   make clean     forgets the environment and the builds
VENV := $(CURDIR)/.venv
BUILD := $(CURDIR)/build/dev
READY := $(VENV)/ready
CXX_SOURCES := $(shell find include src tests -name '*.cc' -o -name '*.h')

# Not newer than 3.11: mxnet 1.9.1 needs numpy < 1.24. `make PYTHON=/path/to/python3.11` names one.
USABLE := -c 'import sys, ensurepip; sys.exit(not (3, 8) <= sys.version_info < (3, 12))' 2>/dev/null
PYTHON := $(shell for python in python3.11 python3 python3.10 python3.9 python3.8; do \
  $$python $(USABLE) && echo $$python && break; done)

export PATH := $(VENV)/bin:$(PATH)

.PHONY: ds2 bench-peers bench-kernels test fuzz build lint format sanitize docs wheel clean

ds2: build
	python -m fused_rnn bench ds2
	python -m fused_rnn bench ds2 --layers 5 --bidirectional

# The peers have requirements of their own, hence an environment of their own.
PEERS := build/peers
bench-peers: build $(PEERS)/ready
	python -m fused_rnn bench grid --page docs/benchmarks.md \
	  $(foreach peer,torch onnxruntime openvino,--peer $(peer)=$(PEERS)/bin/python)

$(PEERS)/ready:
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet torch==2.13.0 onnx onnxruntime openvino
	touch $@

# Intel MKL beside oneDNN where its packages can be had, else oneDNN alone.
bench-kernels: build
	rm -f build/mkl/bench_kernels
	-python -m pip install --quiet mkl-static mkl-include && cmake -S . -B build/mkl -G Ninja \
	  -DFUSED_RNN_PYTHON=OFF -DFUSED_RNN_GEMM=mkl -DCMAKE_PREFIX_PATH=$(VENV) && \
	  cmake --build build/mkl --target bench_kernels
	python tools/kernels_page.py --page docs/kernels.md $(BUILD)/bench_kernels \
	  $$(ls build/mkl/bench_kernels)

test: build
	ctest --test-dir $(BUILD) --output-on-failure
	python tools/check_tiles.py $(BUILD)
	python -m pytest

fuzz: build
	FUSED_RNN_FUZZ=$(or $(N),2000) python -m pytest tests/test_fuzz.py

build: $(READY)
	python setup.py --quiet build_ext --inplace

lint: $(READY)
	ruff check .
	ruff format --check .
	clang-format --dry-run -Werror $(CXX_SOURCES)
	python tools/check_includes.py

format: $(READY)
	ruff check --fix .
	ruff format .
	clang-format -i $(CXX_SOURCES)

sanitize: $(READY)
	cmake -S . -B build/sanitize -G Ninja -DCMAKE_BUILD_TYPE=Debug -DFUSED_RNN_PYTHON=OFF \
	  -DFUSED_RNN_SANITIZE=address -DCMAKE_PREFIX_PATH=$(VENV)
	cmake --build build/sanitize
	ctest --test-dir build/sanitize --output-on-failure

docs: $(READY)
	mkdocs build --quiet

wheel: $(READY)
	python tools/build_wheel.py

clean:
	rm -rf $(VENV) build dist

$(READY): pyproject.toml
	@$(or $(PYTHON),false) $(USABLE) || { echo "PYTHON: expected a CPython 3.8 to 3.11 with ensurepip" \
	  "(mxnet 1.9.1 needs numpy < 1.24, which newer ones do not have), found '$(PYTHON)'" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	python -m pip install --quiet --upgrade pip
	python tools/build_requires.py > $(VENV)/build-requires.txt
	python -m pip install --quiet -r $(VENV)/build-requires.txt
	python -m pip install --quiet --no-build-isolation --editable '.[dev]'
	python -m pip install --quiet gluonnlp==0.10.0 # a client, for the tests; built in isolation
	touch $@

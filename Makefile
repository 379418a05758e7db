# The commands of this project. Each does all the set-up it needs: a Python environment in .venv and
# a build in build/dev.
#   make ds2            the main job: the DeepSpeech2 benchmark, native operator against ours
#   make test           the C++ and the Python tests
#   make bench-peers    all benchmarks, against other frameworks too, into docs/benchmarks.md
#   make bench-kernels  every kernel by itself, against the processor's peaks, into docs/kernels.md
#   make build          a rebuild of what has changed
#   make fuzz           random configurations on all cores: 2000, or make fuzz N=50000
#   make soak           calls of all kinds in one process for 10 minutes, or make soak MINUTES=60
#   make lint           format, style and include checks
#   make format         applies the formats
#   make sanitize       the tests under sanitizers: the three that follow
#   make sanitize-cpp   the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   make sanitize-python  some Python tests under the same two
#   make sanitize-thread  the C++ tests under ThreadSanitizer
#   make test-mkl       all tests on a build with Intel MKL, apart from the normal one
#   make docs           the documentation site, in build/docs; warnings are errors
#   make wheel          a wheel in dist, tried in a new environment
#   make clean          forgets the environment and the builds
#   make help           this list
# `make PYTHON=/path/to/python3.11 ...` makes the environment with that Python.

# All names are relative: make splits names at blanks, and the folder's own may have some. What pip
# installs runs as a module, for its scripts do not start in every folder.
READY := .venv/ready
BUILD := build/dev
CMAKE := python -m cmake
CLANG_FORMAT := python -c 'from clang_format import clang_format; clang_format()'
CXX_SOURCES = find include src tests examples/c \( -name '*.c' -o -name '*.cc' -o -name '*.h' \) \
  -print0 | xargs -0
comma := ,
quote = '$(subst ','\'',$1)'

# Not newer than 3.11: mxnet 1.9.1 needs numpy < 1.24.
USABLE := -c 'import sys, ensurepip; sys.exit(not (3, 8) <= sys.version_info < (3, 12))' 2>/dev/null
WHICH := -c 'import sys; print(sys.base_prefix, sys.version.replace(chr(10), " "))' 2>/dev/null
ifeq ($(origin PYTHON),command line)
  BASE := $(value PYTHON)
  # An environment of another Python is made anew.
  ifneq ($(wildcard $(READY)),)
    ifneq ($(shell $(call quote,$(BASE)) $(WHICH)),$(shell .venv/bin/python $(WHICH)))
      OTHER := yes
      .PHONY: $(READY)
    endif
  endif
else
  BASE = $(shell for python in python3.11 python3 python3.10 python3.9 python3.8; do \
    $$python $(USABLE) && echo $$python && break; done)
endif

export PATH := $(CURDIR)/.venv/bin:$(value PATH)

.DEFAULT_GOAL := help
.PHONY: ds2 test bench-peers bench-kernels build fuzz soak lint format sanitize sanitize-cpp \
  sanitize-python sanitize-thread test-mkl docs wheel clean help

# Characters that mean something in CMake's lists and patterns, in Ninja's files, in options of the
# linker or in PATH. `make clean` and the list of targets do without these tools.
SPECIAL := " , ; : | < > \ [ ] * ?
ifneq ($(filter-out clean help,$(MAKECMDGOALS)),)
  ifneq ($(strip $(foreach character,$(SPECIAL),$(findstring $(character),$(CURDIR)))),)
    $(error The build tools expected a path without any of $(SPECIAL), got $(CURDIR))
  endif
endif

# What make has made carries this mark; without it nothing is filled, and nothing removed. `ready`
# is the mark of environments made earlier.
MARK := .made-by-fused-rnn
ours = { [ -e $1/$(MARK) ] || [ -e $1/ready ]; }
define claim
	@$(call ours,$1) || { mkdir -p $(dir $1) && mkdir $1 2>/dev/null && touch $1/$(MARK); } || \
	  { echo "$1: expected none, or the one that make has made; move yours away" >&2; exit 1; }
endef

ds2: build
	python -m fused_rnn bench ds2
	python -m fused_rnn bench ds2 --layers 5 --bidirectional

# The peers have requirements of their own, hence an environment of their own.
PEERS := build/peers
bench-peers: build $(PEERS)/ready
	python -m fused_rnn bench grid --page docs/benchmarks.md \
	  $(foreach peer,torch onnxruntime openvino,--peer $(peer)=$(PEERS)/bin/python)

$(PEERS)/ready: | $(READY)
	$(call claim,$(PEERS))
	python -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet torch==2.13.0 onnx onnxruntime openvino
	touch $@

# A build of everything with other options, apart from the normal one: the package in $1/lib, the
# C++ tests in $1/cmake.
define other_build
	CMAKE_ARGS='$2 -DFUSED_RNN_TESTS=ON' python setup.py --quiet build --build-base $1 \
	  --build-lib $1/lib --build-temp $1
endef
run_ctest = CTEST_OUTPUT_ON_FAILURE=1 $(CMAKE) --build $1 --target test

.PHONY: mkl-packages mkl sanitized
mkl-packages: $(READY)
	python -m pip install --quiet mkl-static mkl-include

mkl: mkl-packages
	$(call other_build,build/mkl,-DFUSED_RNN_GEMM=mkl)

# Intel MKL beside oneDNN where its packages can be had, else oneDNN alone.
bench-kernels: build
	rm -f build/mkl/cmake/bench_kernels
	-$(MAKE) mkl
	python tools/kernels_page.py --page docs/kernels.md $(BUILD)/bench_kernels \
	  $$(ls build/mkl/cmake/bench_kernels)

test-mkl: mkl
	$(call run_ctest,build/mkl/cmake)
	PYTHONPATH="$$PWD/build/mkl/lib" python -m pytest $(TESTS)

test: build
	$(call run_ctest,$(BUILD))
	python tools/check_tiles.py $(BUILD)
	python tools/check_instructions.py $(BUILD)
	python -m pytest

# By as many processes as there are cores.
fuzz: build
	FUSED_RNN_FUZZ=$(or $(N),2000) python -m pytest -n auto tests/test_fuzz*.py

soak: build
	python tools/soak.py --minutes $(or $(MINUTES),10)

build: $(READY)
	python setup.py --quiet build_ext --inplace

lint: $(READY)
	python -m ruff check .
	python -m ruff format --check .
	$(CXX_SOURCES) $(CLANG_FORMAT) --dry-run -Werror
	python tools/check_includes.py

format: $(READY)
	python -m ruff check --fix .
	python -m ruff format .
	$(CXX_SOURCES) $(CLANG_FORMAT) -i

sanitize: sanitize-cpp sanitize-python sanitize-thread

# Only our libraries are instrumented; leaks of Python and MXNet are not looked for. The sanitizers'
# libraries must be loaded before all others, and the C++ library with them, since they look up its
# functions for exceptions as they start.
library = $$(g++ -print-file-name=$1)
PRELOAD := $(call library,libasan.so) $(call library,libubsan.so) $(call library,libstdc++.so.6)
SANITIZED_TESTS := $(addprefix tests/test_,core_forward core_backward core_threads core_errors \
  fuzz lengths edges projection operator operator_errors gluon_layer streaming weights)
sanitized: $(READY)
	$(call other_build,build/asan,-DFUSED_RNN_SANITIZE=address$(comma)undefined)

sanitize-cpp: sanitized
	$(call run_ctest,build/asan/cmake)

sanitize-python: sanitized
	LD_PRELOAD="$(PRELOAD)" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	  PYTHONPATH="$$PWD/build/asan/lib" \
	  python -m pytest -q $(addsuffix .py,$(SANITIZED_TESTS))

sanitize-thread: $(READY)
	$(CMAKE) -S . -B build/tsan -G Ninja -DFUSED_RNN_PYTHON=OFF -DFUSED_RNN_SANITIZE=thread \
	  -DCMAKE_PREFIX_PATH="$$PWD/.venv"
	$(CMAKE) --build build/tsan
	# Whose children may not start threads otherwise.
	TSAN_OPTIONS=die_after_fork=0 $(call run_ctest,build/tsan)

docs: $(READY)
	$(call claim,build/docs)
	python -m mkdocs build --quiet

wheel: $(READY)
	$(call claim,build/wheel)
	python tools/build_wheel.py

# By name where pip and setuptools made it.
clean:
	@for folder in .venv build/*; do \
	  if $(call ours,"$$folder"); then rm -rf "$$folder"; fi; done
	@rm -rf build/lib.linux-x86_64-* build/temp.linux-x86_64-* build/bdist.linux-x86_64
	@rm -f dist/fused_rnn-*.whl
	@for folder in build dist; do \
	  [ ! -d $$folder ] || rmdir $$folder 2>/dev/null || \
	  echo "$$folder: kept, with what make has not made:" $$(ls -A $$folder); done
	@[ ! -e .venv ] || echo ".venv: kept, since make has not made it"

help:
	@sed -n 's/^#  *\(make .*\)/\1/p' Makefile

$(READY): pyproject.toml
	@$(call quote,$(or $(BASE),false)) $(USABLE) || { echo "PYTHON: expected a CPython 3.8 to 3.11" \
	  "with ensurepip (mxnet 1.9.1 needs numpy < 1.24, which newer ones do not have), found" \
	  $(call quote,'$(BASE)') >&2; exit 1; }
	$(if $(OTHER),@! $(call ours,.venv) || rm -rf .venv)
	$(call claim,.venv)
	$(call quote,$(BASE)) -m venv .venv
	python -m pip install --quiet --upgrade pip
	python tools/build_requires.py > .venv/build-requires.txt
	python -m pip install --quiet -r .venv/build-requires.txt
	python -m pip install --quiet --no-build-isolation --editable '.[dev]'
	python -m pip install --quiet gluonnlp==0.10.0 # a client, for the tests; built in isolation
	touch $@

# Every command here works on a fresh clone: what it needs is installed into .venv first.
PYTHON ?= python3
BIN := .venv/bin
DEMO := hidden/demo

.PHONY: demo test lint bench bench-class bench-capacity setup clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed; try: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

# A fresh hidden split; the solved notebooks earn every point on it, the blank ones none.
demo: setup
	rm -rf $(DEMO) $(DEMO).seed
	$(BIN)/python -m solutions split --out $(DEMO)
	@echo; echo '=== The solved notebooks ==='
	$(BIN)/grader check --split $(DEMO) --notebooks solutions/solved
	@echo; echo '=== The blank notebooks ==='
	@rm -rf $(DEMO)-blank && mkdir $(DEMO)-blank && for m in milestones/m*_*/; do cp $$m/blank.ipynb $(DEMO)-blank/$$(basename $$m).ipynb; done
	$(BIN)/grader check --split $(DEMO) --notebooks $(DEMO)-blank; test $$? -eq 1

# A process for each core, and so a thread for each process.
test: setup
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m solutions render --check

bench: setup .bench/.ready
	$(BIN)/python -m tests.bench
	@echo
	$(BIN)/python -m tests.bench_live
	@echo
	$(BIN)/python -m tests.bench_class
	@echo
	$(BIN)/python -m tests.bench_serve

# How grader class grows with the class; STUDENTS="10 100 1000" takes an hour and a half.
STUDENTS ?= 10 30 100
bench-class: setup
	$(BIN)/python -m tests.bench_scale --students $(STUDENTS)

# Our KV-cache calculator and published ones on the same config files (../shared/configs).
bench-capacity: setup
	$(BIN)/python -m tests.bench_calculators

# What `bench` compares with. Each has an environment of its own, as its users have: what one brings
# along slows the start of the other.
.bench/.ready: tests/peers.txt constraints.txt | setup
	for peer in 'nbgrader' 'otter-grader[grading]'; do \
		$(PYTHON) -m venv --clear ".bench/$${peer%\[*}" && \
		".bench/$${peer%\[*}/bin/python" -m pip install --quiet --disable-pip-version-check \
			--constraint constraints.txt --constraint tests/peers.txt \
			"$$peer" matplotlib numpy pandas || exit 1; \
	done
	touch $@

clean:
	rm -rf .venv .bench hidden out

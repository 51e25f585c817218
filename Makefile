# One place for the commands; CI and the README call these targets.
VENV := .venv
PY := $(VENV)/bin/python
PYTHON ?= python3

.PHONY: demo test lint types unit deep bench figures clean

demo: $(VENV)/.installed
	$(VENV)/bin/ascendsim run scenarios/softmaxgrad_960x960_float.toml --out out/demo
	@echo "Open out/demo/report.html in a browser; pictures: out/demo/timeline.png and out/demo/memory.png; out/demo/trace.json is for Perfetto or MindStudio Insight."

test: lint types unit

lint: $(VENV)/.installed-test
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .

types: $(VENV)/.installed-test
	$(VENV)/bin/mypy

# A process for each core, and a core that has nothing left takes tests of another. Benchmarks do not go with it.
unit: $(VENV)/.installed-test
	$(VENV)/bin/pytest --numprocesses logical --dist worksteal --benchmark-disable

deep: $(VENV)/.installed-test
	$(VENV)/bin/pytest -m deep --numprocesses logical --dist worksteal --benchmark-disable
	$(PY) tests/checks/mutant_scores.py
	$(PY) tests/kernels/fag_cover.py
	$(PY) tests/fuzz/fuzz_run.py --cases 100000
	$(PY) tests/long_scenarios.py
	$(PY) tools/fit_costs.py --check
	$(PY) tools/make_fag_space.py --check

bench: $(VENV)/.installed-test
	$(VENV)/bin/pytest tests/bench/speed.py --benchmark-columns=min,mean,rounds
	$(PY) tests/bench/growth.py
	$(PY) tests/bench/page.py
	$(PY) tests/bench/tuning.py

figures: $(VENV)/.installed
	for script in plots/*.py; do $(PY) $$script || exit 1; done

# Where PYTHONDONTWRITEBYTECODE is set, every run would compile the package anew: 0.4 s.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e .
	$(PY) -m compileall -q ascendsim
	touch $@

$(VENV)/.installed-test: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[test]"
	$(PY) -m compileall -q ascendsim
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

PYTHON ?= python3
RUN := .venv/bin/python

.PHONY: setup demo test lint bench smollm2 clean

setup:  ## make .venv and install what this machine can run
	@$(PYTHON) bootstrap.py

demo: setup  ## warm start a tiny policy, train it with SHARPO, show success by family (about 11 minutes on 2 cores)
	@$(RUN) -m sharpo.demo

test: lint  ## every test; TIER=unit, contract, integration or fidelity for one part (vLLM on CPU is in integration)
	@$(PYTHON) bootstrap.py smollm2 webshop
	@OMP_NUM_THREADS=1 $(RUN) -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(if $(TIER),-m $(TIER))

lint: setup  ## ruff and pyright
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m pyright --pythonpath $(RUN)

smollm2:  ## prepare SmolLM2-135M-Instruct for experiment=household_smollm2
	@$(PYTHON) bootstrap.py smollm2
	@$(RUN) -m sharpo.policy.smollm2

bench: setup  ## the ratios of docs/benchmarks.md
	@$(RUN) -m benchmarks

clean:
	rm -rf runs outputs multirun .pytest_cache .ruff_cache

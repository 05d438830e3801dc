# What can be done here; `make` alone lists it.

SHELL := bash
PROFILE ?= laptop
BIN := .venv/bin
READY := .venv/ready

.PHONY: help setup test reproduce lab lint bench lock clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from requirements.lock (PYTHON=... names the interpreter)

# Continuous integration leaves none out.
LEFT_OUT := $(if $(or $(ALL),$(filter true,$(CI))),,and not slow)

# Trials wait for each other much of the time: those that may run beside others do. Without a
# cluster, the last part says how many tests that leaves out. IMAGES may name a process that still
# builds the images of pods.
test: $(READY) ## run the tests (ALL=1: the slow ones, too), as many as can at once
	$(BIN)/python -m pytest -m "(unit or beside) $(LEFT_OUT)" --numprocesses auto
	$(BIN)/python -m pytest -m "process and not (beside or alone) $(LEFT_OUT)" --numprocesses 2 \
	    --dist loadfile
	$(if $(LABKIT_TEST_CLUSTER),$(BIN)/python -m pytest --numprocesses 3 \
	    -m "cluster and not alone $(LEFT_OUT)")
	$(BIN)/python -m pytest -m "(alone $(if $(LABKIT_TEST_CLUSTER),,or cluster)) $(LEFT_OUT)"
	@$(if $(LEFT_OUT),echo "slow tests left out: make test ALL=1 runs all")

reproduce: $(READY) ## train, and render the notebooks (PROFILE=smoke|laptop|laptop-nodes|fifty-nodes)
	$(BIN)/labkit reproduce --profile $(PROFILE)

book: $(READY) ## make a site of all notebooks with their results, in outputs/book
	$(BIN)/labkit book --profile $(PROFILE)

lab: $(READY) ## open notebooks/start.ipynb in JupyterLab; your own ones are in notebooks/my/
	@mkdir -p notebooks/my
	@[ -e notebooks/my/experiment.ipynb ] || cp templates/experiment.ipynb notebooks/my/
	@# Notebooks run in folders of their own, where what is relative would be another place.
	@for name in LABKIT_OUTPUTS LABKIT_DATA LABKIT_CLUSTER; do \
	    [ -z "$${!name}" ] || export $$name="$$(realpath -m "$${!name}")"; \
	done; \
	$(BIN)/jupyter lab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks/start.ipynb

lint: $(READY) ## check the style of the code, and that notebooks hold no outputs
	$(BIN)/ruff check
	find notebooks templates -path notebooks/my -prune -o -name '*.ipynb' -exec $(BIN)/nbstripout --verify {} +

# Those whose cluster LABKIT_TEST_CLUSTER has to name, or they are left out.
ON_CLUSTER := control_plane launchers logs startup
LOCALLY := $(filter-out $(ON_CLUSTER),$(basename $(notdir $(wildcard benchmarks/*.py))))

bench: $(READY) ## run the benchmarks (QUICK=1: a short form of each, in minutes)
	@$(if $(LABKIT_TEST_CLUSTER),,echo "left out, as they need a cluster: $(ON_CLUSTER);" \
	    "LABKIT_TEST_CLUSTER=/path/to/admin.kubeconfig make bench runs them (docs/kubernetes.md)")
	@$(MAKE) --no-print-directory --keep-going \
	    $(addprefix bench-,$(LOCALLY) $(if $(LABKIT_TEST_CLUSTER),$(ON_CLUSTER)))

bench-%: $(READY)
	@echo "== $*"
	@$(BIN)/python benchmarks/$*.py $(if $(QUICK),--quick)

COMPILE := $(BIN)/uv pip compile --quiet --generate-hashes --custom-compile-command "make lock"

lock: $(READY) ## make requirements.lock from pyproject.toml (UPGRADE=--upgrade: newest versions)
	$(COMPILE) --universal --fork-strategy fewest --group dev $(UPGRADE) \
	    --output-file requirements.lock pyproject.toml
	for image in mxnet:mxnet tensorflow:tensorflow-cpu; do \
	    printf '%s\n' "$${image#*:}" numpy cloudpickle | $(COMPILE) --no-annotate --python-version 3.11 \
	        --python-platform x86_64-manylinux_2_28 --constraint requirements.lock \
	        --output-file "templates/images/$${image%:*}/requirements.txt" - ; done

clean: ## remove .venv and caches, not data/ and outputs/
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml
	@bash .ci/setup

# Also looked at again: where PYTHON is named, and where .venv was copied or moved here.
ifneq ($(PYTHON)$(shell cat $(READY) 2>/dev/null),$(CURDIR))
.PHONY: $(READY)
endif

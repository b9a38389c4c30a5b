# Every target does its own set-up; nothing needs an activated environment.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
EXTRAS := data,metaworld,pusht,praxis,vlm,report,onnx,lab,serve,dev

.PHONY: setup demo test test-slow test-lerobot test-openpi test-robosuite check format bench bench-neighbors bench-robosuite docs lab clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt $(wildcard packages/*/pyproject.toml)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]' --editable packages/oatkit-client --editable packages/lerobot_policy_oat
	touch $(STAMP)

demo: setup
	$(BIN)/oatkit demo

# One thread each: there are as many processes as cores.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m 'not slow and not sim'

test-slow: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m 'slow or sim'

# Needs about 9 GB: LeRobot pins an older torch, so it gets an environment of its own. The tests of the
# plugin run there once more, on the real LeRobot instead of the stand-in.
test-lerobot: .venv-lerobot/.installed
	HF_HUB_OFFLINE=1 MUJOCO_GL=$${MUJOCO_GL:-egl} .venv-lerobot/bin/python -m pytest tests/lerobot tests/lerobot_policy_oat -W default

# MetaWorld 3.0.0, which LeRobot pins, breaks on a newer mujoco, and praxis-eval on a newer gymnasium.
.venv-lerobot/.installed: $(wildcard pyproject.toml packages/*/pyproject.toml)
	test -x .venv-lerobot/bin/python || $(PYTHON) -m venv .venv-lerobot
	.venv-lerobot/bin/python -m pip install --quiet 'lerobot[transformers-dep,metaworld,pusht]==0.4.4' 'praxis-eval[metaworld]==0.1.3' 'mujoco<3.4' 'gymnasium<1.4' --editable '.[data,serve]' --editable packages/oatkit-client --editable packages/lerobot_policy_oat pytest hypothesis
	.venv-lerobot/bin/python -m pip check
	touch $@

# The published client of openpi, which needs numpy below 2, against our server. It imports
# typing_extensions without asking for it.
test-openpi: setup .venv-openpi/.installed
	OATKIT_OPENPI_PYTHON=.venv-openpi/bin/python $(BIN)/python -m pytest tests/openpi

.venv-openpi/.installed: packages/oatkit-client/pyproject.toml
	test -x .venv-openpi/bin/python || $(PYTHON) -m venv .venv-openpi
	.venv-openpi/bin/python -m pip install --quiet openpi-client typing_extensions --editable 'packages/oatkit-client[onnx]'
	.venv-openpi/bin/python -m pip check
	touch $@

# robosuite takes numpy below 2, which pyarrow of today does not: an environment of its own. Everything
# that acts in robosuite is tested there, and the simulators beside it.
test-robosuite: .venv-robosuite/.installed
	OMP_NUM_THREADS=1 .venv-robosuite/bin/python -m pytest -n auto -m 'not slow and not sim' tests/envs tests/jobs/test_robosuite_demonstrations.py tests/jobs/test_robosuite_recordings.py tests/jobs/test_robosuite_replay.py tests/commands/test_data_make_robosuite.py

.venv-robosuite/.installed: pyproject.toml constraints.txt packages/oatkit-client/pyproject.toml
	test -x .venv-robosuite/bin/python || $(PYTHON) -m venv .venv-robosuite
	.venv-robosuite/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[data,metaworld,pusht,robosuite,report]' --editable packages/oatkit-client pytest pytest-xdist hypothesis
	.venv-robosuite/bin/python -m pip check
	touch $@

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
	$(BIN)/python -m benchmarks.tokenizer_speed
	$(BIN)/python -m benchmarks.klt_speed
	$(BIN)/python -m benchmarks.fast_speed
	$(BIN)/python -m benchmarks.policy_latency
	$(BIN)/python -m benchmarks.oat_convergence
	$(BIN)/python -m benchmarks.tokenizer_rate_distortion
	$(BIN)/python -m benchmarks.lab_latency
	$(BIN)/python -m benchmarks.prefix_picture
	$(BIN)/python -m benchmarks.token_predictability
	$(BIN)/python -m benchmarks.tokenizer_sweep
	$(BIN)/python -m benchmarks.policy_table
	$(BIN)/python -m benchmarks.policy_table --only oat oat-pow2 --temperatures 1
	$(BIN)/python -m benchmarks.policy_sweep
	$(BIN)/python -m benchmarks.control
	$(BIN)/python -m benchmarks.vlm_speed
	$(BIN)/python -m benchmarks.flow_speed
	$(BIN)/python -m benchmarks.vlm_memory
	$(BIN)/python -m benchmarks.vlm_pipeline
	$(BIN)/python -m benchmarks.vlm_rows
	$(BIN)/python -m benchmarks.vlm_padding
	$(BIN)/python -m benchmarks.serve_load
	$(BIN)/python -m benchmarks.report

# LeRobot's ACT and Diffusion Policy beside ours, trained in LeRobot's own environment.
bench-neighbors: setup .venv-lerobot/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.neighbors

# Experts, speed and the light table on robosuite.
bench-robosuite: .venv-robosuite/.installed
	.venv-robosuite/bin/python -m benchmarks.robosuite_experts
	.venv-robosuite/bin/python -m benchmarks.policy_robosuite
	.venv-robosuite/bin/python -m benchmarks.policy_robosuite --images --only oat

# The page of `oatkit lab`, from lab/src; what is built is kept in the repository.
lab:
	cd lab && npm ci --ignore-scripts && npm run build

docs: setup
	$(BIN)/mkdocs build --quiet --strict
	@echo "wrote out/site/index.html"

clean:
	rm -rf .venv .venv-lerobot .venv-openpi .venv-robosuite out build dist lab/node_modules

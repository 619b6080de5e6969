#!/bin/sh
# Unpacks vLLM's bundle (shared/h200/bundle), the client's wheels and this checkout's entry points:
#   sh ci/h200/setup.sh BUNDLE
# BUNDLE holds setup.sh, the archives, models/, mi/ and, beside them, whl/ (aiohttp and orjson for this Python),
# repo.tar (git archive COMMIT: what is measured, whatever the checkout holds) and, from an earlier call, profiles/.
set -e
bundle=$1
sh "$bundle/setup.sh" "$bundle"
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /opt/client "$bundle"/whl/*.whl
[ -d /opt/repo ] || { mkdir /opt/repo && tar xf "$bundle/repo.tar" -C /opt/repo; }
[ ! -d "$bundle/profiles" ] || cp -r "$bundle/profiles" /opt/w/
rm -rf /opt/site/steptrace*
mkdir -p /opt/site/depthgate_campaign-0.dist-info
printf 'Metadata-Version: 2.1\nName: depthgate-campaign\nVersion: 0\n' >/opt/site/depthgate_campaign-0.dist-info/METADATA
cat >/opt/site/depthgate_campaign-0.dist-info/entry_points.txt <<'TEXT'
[vllm.general_plugins]
depthgate = governors.vllm_plugin:register
depthgate_ablations = ci.h200.ablations:register
TEXT

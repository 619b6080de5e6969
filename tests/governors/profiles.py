"""Profiles for tests: published step times, and invented tables small enough to reckon by hand."""

from __future__ import annotations

from dataclasses import replace

from governors.profile import Binding, Profile

# Step milliseconds and acceptance of EAGLE: vllm#32374, description, dynamic_speculative_config.json.
EAGLE_BATCHES = (1, 4, 16, 64, 256)
EAGLE_DEPTHS = (0, 1, 3, 5)
EAGLE_STEP_MS = (
    (6.520589930005372, 7.367628160864115, 8.84066498838365, 10.32649097032845),
    (6.601515458896756, 7.472813129425049, 8.981170016340911, 10.400271974503994),
    (6.898819003254175, 7.852344075217843, 9.518282022327185, 11.196403065696359),
    (7.774091092869639, 9.656429989263415, 13.497876934707165, 16.831180080771446),
    (14.491415582597256, 27.138127014040947, 41.848431108519435, 57.40421102382243),
)
EAGLE_ACCEPTANCE = (
    0.6811801775995416,
    0.3914351188771126,
    0.20352334574620454,
    0.1014036092810083,
    0.051417931824692065,
)
EAGLE_BEST_DEPTHS = {1: 3, 4: 3, 16: 3, 64: 1, 256: 0}

EAGLE = Profile(
    binding=Binding("H100", "llama-3.1-8b", "eagle", "vllm#32374"),
    batches=EAGLE_BATCHES,
    depths=EAGLE_DEPTHS,
    step_s=tuple(tuple(ms / 1000 for ms in row) for row in EAGLE_STEP_MS),
    verify_tokens=(),
    verify_s=(),
    draft_s=None,
    acceptance=EAGLE_ACCEPTANCE,
    captured_tokens=(),
    source="vllm#32374, description",
    is_model=False,
)

# Invented: depth 4 pays at one request, 2 at 16, and none at 64.
GRID = replace(
    EAGLE,
    batches=(1, 16, 64),
    depths=(0, 1, 2, 4),
    step_s=((0.008, 0.009, 0.010, 0.012), (0.009, 0.012, 0.015, 0.021), (0.014, 0.026, 0.038, 0.062)),
    acceptance=(0.7, 0.5, 0.3, 0.2),
    source="invented for tests",
    is_model=True,
)

# Invented: stairs of 10, 11, 15 and 40 ms up to 4, 8, 16 and 32 tokens; above them 60 ms and 1 ms a token.
STAIRS = replace(
    GRID,
    verify_tokens=(4, 8, 16, 32, 33, 43),
    verify_s=(0.010, 0.011, 0.015, 0.040, 0.060, 0.070),
    captured_tokens=(4, 8, 16, 32),
)

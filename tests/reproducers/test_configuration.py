"""The numbers that decide on graphs: vLLM's sizes, what runs in none of them, and grids that find it."""

from __future__ import annotations

import pytest

from engines.embedded.profile import load_profile
from reproducers.configuration import (
    EngineConfig,
    capturable,
    counted,
    default_sizes,
    graph_edges,
    in_no_graph,
)


def test_vllm_s_sizes_are_those_that_a_real_server_captured() -> None:
    assert default_sizes(512) == load_profile("h200-qwen3-4b-eagle").penalties.capture_sizes
    assert default_sizes(42)[-1] == 40  # vllm#54933
    assert default_sizes(3) == (1, 2)


@pytest.mark.parametrize(("tokens", "size"), [(1, 1), (3, 4), (42, 48), (248, 248), (249, 256), (2048, 2048)])
def test_the_size_that_holds(tokens: int, size: int) -> None:
    assert capturable(tokens) == size


def test_what_runs_in_no_graph() -> None:
    config = EngineConfig(8, (1,), (2, 4, 8))
    assert in_no_graph(config, 1) == [5, 6, 7, 8]  # above 8 tokens
    unpadded = EngineConfig(8, (1,), (2, 4, 8), padding=False)
    assert in_no_graph(unpadded, 1) == [3, 5, 6, 7, 8]
    assert in_no_graph(EngineConfig(8, (1,), None), 1) == []
    assert in_no_graph(EngineConfig(3, (0,), ()), 0) == [1, 2, 3]


def test_a_grid_has_both_sides_of_every_edge() -> None:
    assert graph_edges((8, 16, 32), depth=1, most=20) == (3, 4, 5, 7, 8, 9, 15, 16, 17)
    assert graph_edges((1,), depth=3, most=4) == (1,)


def test_runs_of_numbers_are_drawn_together() -> None:
    assert counted([3]) == "3 requests"
    assert counted([1]) == "1 request"
    assert counted([1, 2, 3, 5, 9, 10]) == "1-3, 5, 9-10 requests"
    assert counted([1, 3, 5, 7, 9]) == "1, 3, 5, 7 ... requests"

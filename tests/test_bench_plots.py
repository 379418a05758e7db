"""The benchmarks' pictures: what they name, and that nothing covers or leaves anything."""

from __future__ import annotations

import itertools

import pytest
from test_bench_tables import run, variant  # noqa: F401  the fixture

from fused_rnn.bench import peers, plots, report
from fused_rnn.bench.problem import Problem

ALL = tuple(name for name in peers.PEERS if name != peers.OURS)


@pytest.fixture
def full(run):  # noqa: F811
    """With every peer, where roofs are near and far."""
    run.rows += [variant(0.01, f"Scaling in {x}", ALL) for x in ("N", "H", "threads")]
    run.rows += [variant(0.02, "Scaling in N", ALL, N=n) for n in (1, 5)]
    run.rows += [variant(0.09, "Scaling in N", ALL, N=n, dtype="float64") for n in (2, 5)]
    low = {"shape": "wide", "D": 2, "bytes_read": 2 * 10**9}  # half an operation for a byte
    run.rows += [variant(0.1, "all", ALL, training=training, **low) for training in (False, True)]
    run.probes["read_bandwidth"] = {
        name: {"bytes": 1, "gbs": gbs} for name, gbs in (("L2", 50), ("L3", 23), ("DRAM", 8))
    }
    return run


def drawn(figure):
    figure.draw_without_rendering()
    return figure


@pytest.mark.parametrize("draw", [plots.shares, plots.roofline, plots.scaling])
def test_legend_is_whole(full, draw):
    figure = drawn(draw(full))
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {
        peers.PEERS[name].label for name in full.timed
    }
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
    assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes)


def test_shares_have_a_line_for_each_problem(full):
    figure = drawn(plots.shares(full))
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(set(labels)) == len(labels)
    assert "s, LSTM, forward" in labels and not any("contended" in label for label in labels)
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    for line in figure.axes[0].get_lines():
        assert line.get_markersize() >= 6


def test_roofs_do_not_cross_their_names(full):
    figure = drawn(plots.roofline(full))
    (axes,) = figure.axes
    names = {text.get_text(): text.get_window_extent() for text in axes.texts}
    assert set(names) == {"FMA peak", "L2", "L3", "DRAM"}
    for box in names.values():
        assert axes.get_window_extent().containsx(box.x0) and box.y1 < axes.get_window_extent().y1
        for line in axes.get_lines():
            path = line.get_path().transformed(line.get_transform())
            assert not path.intersects_bbox(box, filled=False)
    peak = axes.transData.transform((1, 505))[1]
    roof = names["FMA peak"]
    assert not roof.y0 < axes.transData.transform((1, 100))[1] < roof.y1 and peak > roof.y0


def test_scaling_is_of_one_kind(full):
    """float64 rows of the same group are not joined to a line of float32."""
    figure = drawn(plots.scaling(full))
    axes = figure.axes[1]
    assert axes.get_xlabel() == "sequences N"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "5", "20"]
    assert all(list(line.get_xdata()) == [1, 5, 20] for line in axes.get_lines())


@pytest.mark.parametrize("ours, native", [(0.8, 0.6), (0.8, 1.0), (0.5, 1.3)])
@pytest.mark.parametrize("imperative", [False, True])
def test_ds2(ours, native, imperative):
    """The speed-up is above both bars, wherever they end; the form of the operators is named."""
    problem = Problem("gru", T=3, N=2, I=4, H=5)
    seconds = [[problem.flops(False) / share / 100e9] * 3 for share in (native, ours)]
    rows = [report.Row(problem, False, imperative, 2, *seconds, [100.0] * 3)]
    machine = {"cpu": "c", "isa": "avx2", "threads": 2}
    settings = {"dtype": "float32", "imperative": imperative}
    figure = drawn(report.draw(report.Run(dict(T=3), settings, machine, rows)))
    (axes,) = figure.axes
    (text,) = axes.texts
    assert text.get_text() == f"{ours / native:.2f}x"
    box = text.get_window_extent()
    assert box.y0 >= max(bar.get_window_extent().y1 for bar in axes.patches)
    assert box.y1 <= axes.get_window_extent().y1
    assert ("called on arrays" if imperative else "bound symbols") in axes.get_title()
    assert "mx.nd" not in " ".join(t.get_text() for t in figure.legends[0].get_texts())
    title = axes.title.get_window_extent()
    assert figure.bbox.x0 <= title.x0 and title.x1 <= figure.bbox.x1

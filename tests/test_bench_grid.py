"""The grid of benchmarks: arithmetic by hand, what ends a run, its files. No times are judged."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import sys
import time

import pytest

from fused_rnn import _core, cli
from fused_rnn.bench import compare, conversions, grid, measure, peers, probes, results, tables
from fused_rnn.bench.grid import parse_shape
from fused_rnn.bench.problem import Problem
from fused_rnn.bench.results import Row, Run

SMALL = {
    "shapes": {"small": "T6 N2 I3 H5"},
    "groups": [
        {
            "name": "one",
            "shapes": ["small"],
            "modes": ["lstm"],
            "passes": ["forward", "training"],
            "lengths": [False, True],
        },
        {
            "name": "two",
            "shapes": ["T2 N1 I3 H5"],
            "modes": ["gru"],
            "passes": ["forward"],
            "latency": True,
            "contended": True,
        },
    ],
}


def bench(monkeypatch, *arguments: object) -> None:
    """The command line, in this process."""
    monkeypatch.setattr(sys, "argv", ["fused-rnn", "bench", *map(str, arguments)])
    cli.main()


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL))
    return path


def run_small(monkeypatch, small, *arguments: object) -> Run:
    output = small.with_name("output")
    options = ["--rounds", 3, "--threads", 2, "--only", peers.NATIVE, "--output", output]
    bench(monkeypatch, "grid", "--grid", small, *options, *arguments)
    return results.load(output / "grid.json")


# ---- By hand


def test_operations():
    """4 gates of 5 units on 3 + 5 columns, 2 directions; above, on 10 + 5. Multiply and add are
    two.
    """
    problem = Problem("lstm", T=4, N=2, I=3, H=5, L=2, D=2)
    forward = 2 * 4 * 2 * (2 * 4 * 5 * (3 + 5) + 2 * 4 * 5 * (10 + 5))
    assert problem.flops(training=False) == forward == 14_720
    assert problem.flops(training=True) == 3 * forward
    assert Problem("lstm", T=300, N=20, I=800, H=800).flops(False) == 61_440_000_000


def test_bytes():
    """Of float16: 2 layers x 2 directions x 3 gates of 5 units; 3, then 10 input columns read once,
    5 recurrent ones at each of 4 steps.
    """
    problem = Problem("gru", T=4, N=2, I=3, H=5, L=2, D=2, dtype="float16")
    rows = 2 * 3 * 5
    assert problem.recurrent_bytes == 2 * rows * 5 == 300
    forward = 2 * rows * (3 + 10) + 2 * 4 * 300
    assert problem.bytes_read(training=False) == forward == 3_180
    assert problem.bytes_read(training=True) == 2 * forward


def test_bytes_of_one_sequence():
    """4 gates of 256 units; 64 input columns are read once, 256 recurrent ones at each of 100
    steps. One sequence needs as much as many.
    """
    problem = Problem("lstm", T=100, N=1, I=64, H=256)
    assert problem.recurrent_bytes == 4 * 1024 * 256 == 1_048_576
    assert problem.bytes_read(training=False) == 4 * 1024 * 64 + 100 * 1_048_576 == 105_119_744
    many = dataclasses.replace(problem, N=20)
    assert many.bytes_read(training=False) == problem.bytes_read(training=False)


def test_work_follows_lengths():
    full_length = Problem("gru", T=9, N=40, I=3, H=5)
    shorter = dataclasses.replace(full_length, variable_length=True)
    lengths = shorter.lengths()
    assert (lengths.min(), lengths.max()) == (1, 9)
    per_row = full_length.flops(False) // (9 * 40)
    assert shorter.flops(False) == per_row * lengths.sum()


def row(seconds: list[float], peak: float = 100.0, **changes) -> Row:
    problem = Problem("lstm", T=10, N=1, I=8, H=8)
    values = {
        "group": "g",
        "shape": "s",
        "problem": problem,
        "training": False,
        "threads": 2,
        "contended": False,
        "flops": 10**9,
        "bytes_read": 10**6,
        "bandwidth_gbs": 50.0,
        "peak_gflops": [peak] * len(seconds),
        "others": [0.0] * len(seconds),
        "seconds": {peers.OURS: seconds, peers.NATIVE: [3 * each for each in seconds]},
        "calls": {},
        "first_seconds": {peers.OURS: 1.0, peers.NATIVE: 1.0},
        "memory": {peers.OURS: 1, peers.NATIVE: 2},
        "sizes": {},
        "refused": {},
    }
    return Row(**{**values, **changes})


def test_bound_is_the_longer_of_both():
    computing = row([0.02] * 3)  # 1e9 operations at 100e9: 10 ms; 1e6 bytes at 50e9: 20 us
    assert (computing.bound_by, computing.fraction()) == ("FLOPs", pytest.approx(0.5))
    reading = row([0.05] * 3, bytes_read=10**9)  # 20 ms
    assert (reading.bound_by, reading.fraction()) == ("reading", pytest.approx(0.4))
    assert reading.fraction(peers.NATIVE) == pytest.approx(0.4 / 3)
    assert reading.ratios(peers.NATIVE) == pytest.approx([3, 3, 3])


def test_percentiles():
    calls = [float(k) for k in range(100, 0, -1)]
    found = row([1.0], calls={peers.OURS: calls})
    assert [found.percentile(peers.OURS, p) for p in (50, 90, 99)] == [50, 90, 99]
    assert row([1.0], calls={peers.OURS: [7.0]}).percentile(peers.OURS, 99) == 7


def test_read_bandwidth():
    assert _core.read_bandwidth(1 << 20, 2, 0.001) > 0
    with pytest.raises(ValueError, match="bytes: expected at least"):
        _core.read_bandwidth(8, 2, 0.001)
    with pytest.raises(ValueError, match="threads: expected 0"):
        _core.read_bandwidth(1 << 20, -1, 0.001)


def test_neighbours():
    """A busy process counts unless it is one of our own."""
    with measure.competitor(True) as own:
        strangers, family = probes.Neighbours([]), probes.Neighbours(own)
        time.sleep(0.5)
        assert strangers.share() > family.share() + 0.1 / os.cpu_count()


def test_rounds_of_slow_peers():
    """Ours and one more take 1 s a round together, the slow one 4 s."""
    costs = {peers.OURS: 0.4, peers.NATIVE: 0.6, "torch": 4.0}

    def rounds(share: float, left: float = 1000) -> list[int]:
        return list(measure.share_rounds(costs, 10, left, share).values())

    assert rounds(share=100) == [10, 10, 3]
    assert rounds(share=17) == [5, 5, 3]
    assert rounds(share=12) == [4, 4, 2]
    assert rounds(share=0) == [3, 3, 1]
    assert rounds(share=0, left=7) == [3, 3, 1]
    with pytest.raises(measure.OverBudget, match="the fewest rounds take 7 s, 6 s are left"):
        rounds(share=100, left=6)
    assert measure.share_rounds({peers.OURS: 5.0}, 10, 100, 20) == {peers.OURS: 4}


def test_more_threads_than_usual():
    """Two threads are the run's; 4 take 1.5 times as long. One thread is another matter."""
    usual, more, fewer = (row([t] * 3, threads=n) for n, t in ((2, 0.02), (4, 0.03), (1, 0.05)))
    table = tables.crowding(Run({}, {}, {"threads": 2}, [usual, more, fewer]))
    assert table.lines == [["s, LSTM, forward, threads: 4", "1.50", "1.50"]]
    assert tables.crowding(Run({}, {}, {"threads": 2}, [usual, fewer])) is None


# ---- The grid


def test_grid_file():
    blocks = grid.load(grid.DEFAULT, threads=4)
    shapes = {tuple(getattr(b.problem, letter) for letter in "NTIHLD") for b in blocks}
    published = {(64, T, 500, 500, 1, 1) for T in (15, 25, 50)}
    published |= {(N, 25, H, H, 1, 1) for N in (16, 32, 64, 128) for H in (512, 1024)}
    published |= {(16, 25, 2048, 2048, 1, 1), (20, 300, 800, 800, 1, 1), (20, 300, 800, 800, 5, 2)}
    published |= {(20, 35, 650, 650, 2, 1)} | {(1, 100, H, H, 1, 1) for H in (64, 256, 800, 1024)}
    assert published <= shapes
    assert {b.threads for b in blocks} == {1, 2, 4, 8, 16}
    assert {b.problem.dtype for b in blocks} == {"float32", "float64", "float16", "bfloat16"}
    assert any(b.contended for b in blocks) and any(b.problem.variable_length for b in blocks)
    assert all(b.contended for b in grid.load(grid.DEFAULT, 2, contended=True))


def test_multiples_of_threads(tmp_path):
    groups = [{**SMALL["groups"][0], "threads": [1, 4]}, SMALL["groups"][1]]
    path = tmp_path / "grid.json"
    path.write_text(json.dumps({**SMALL, "groups": groups}))
    assert [block.threads for block in grid.load(path, 3)] == [3, 12, 3, 12, 3]
    name = "Scaling beyond the cores"
    assert [block.threads for block in grid.load(grid.DEFAULT, 2, groups=[name])] == [2, 4, 8]


def test_grid_errors():
    with pytest.raises(ValueError, match="shape: expected the form"):
        parse_shape("T3 N2 H5")
    with pytest.raises(ValueError, match="groups: expected some of DeepSpeech2"):
        grid.load(grid.DEFAULT, 2, groups=["nothing"])


# ---- Runs


def test_small_run(monkeypatch, small, capsys):
    page = small.with_name("docs") / "benchmarks.md"
    found = run_small(monkeypatch, small, "--page", page)
    assert [len(found.rows), found.left_out] == [5, {}]
    for each in found.rows:
        assert peers.OURS in each.seconds
        assert (peers.NATIVE in each.seconds) != each.problem.variable_length
        for samples in (*each.seconds.values(), each.peak_gflops):
            assert len(samples) == 3 and min(samples) > 0
        assert len(each.others) == 3 and all(0 <= share <= 1 for share in each.others)
        assert each.memory[peers.OURS] >= 0 and each.first_seconds[peers.OURS] > 0
        assert each.sizes["workspace_inference"] > 0
    latency = found.rows[-1]
    assert latency.contended and len(latency.calls[peers.OURS]) > 3
    assert found.probes["fma_peak_gflops"]["scalar"]["float64"] > 0
    assert found.probes["read_bandwidth"]["DRAM"]["gbs"] > 0
    with (small.with_name("output") / "grid.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 8  # ours 5, native 3
    assert {line["peer"] for line in lines} == {peers.OURS, peers.NATIVE}
    text = page.read_text()
    for part in ("MXNet native", "no lengths", "Memory", "Latency", "Lengths uniform", "commit"):
        assert part in text
    for link in ("roofline",):
        plot = page.with_name(f"benchmarks-{link}.png")
        assert plot.name in text and plot.read_bytes().startswith(b"\x89PNG")
    assert "MXNet native" in capsys.readouterr().out


def test_budget_bounds_the_run(monkeypatch, small):
    found = run_small(monkeypatch, small, "--budget", "0")
    assert found.rows == [] and len(found.left_out) == 5
    assert set(found.left_out.values()) == {"the budget is spent"}


@pytest.mark.parametrize(
    "side, message", [("convert", "MXNet native, LSTM: y differs"), ("restore", "dparams differs")]
)
def test_a_wrong_result_stops_the_run(monkeypatch, small, side, message):
    form = conversions.FORMS["flat"]
    right = getattr(form, side)

    def wrong(layout, value):
        result = right(layout, value)
        if isinstance(result, dict):
            return {name: array * 1.01 for name, array in result.items()}
        return result * 1.01

    monkeypatch.setitem(conversions.FORMS, "wrong", form._replace(**{side: wrong}))
    native = dataclasses.replace(peers.PEERS[peers.NATIVE], form="wrong")
    monkeypatch.setitem(peers.PEERS, peers.NATIVE, native)
    with pytest.raises(SystemExit, match=message):
        run_small(monkeypatch, small)


def test_a_peer_that_dies_stops_the_run(monkeypatch, small):
    native = dataclasses.replace(peers.PEERS[peers.NATIVE], arguments=("unknown",))
    monkeypatch.setitem(peers.PEERS, peers.NATIVE, native)
    with pytest.raises(SystemExit, match="MXNet native: its process ended.*KeyError"):
        run_small(monkeypatch, small)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--peer", "torch"], "--peer: expected NAME=PYTHON"),
        (["--peer", f"{peers.NATIVE}=/nowhere/python"], "No such file"),
        (["--groups", "three"], "groups: expected some of one, two"),
    ],
)
def test_bad_options(monkeypatch, small, arguments, message):
    with pytest.raises(SystemExit, match=message):
        run_small(monkeypatch, small, *arguments)


# ---- Two runs


def saved(path, rows: list[Row]) -> str:
    results.save(Run({"commit": path.name}, {}, {}, rows), path)
    return str(path)


def test_compare_flags_a_planted_slow_down(monkeypatch, tmp_path, capsys):
    steady, other = [0.0100, 0.0101, 0.0099, 0.0100], row([0.0200] * 4, shape="other")
    before = saved(tmp_path / "a.json", [row(steady), other])
    after = saved(tmp_path / "b.json", [row([1.3 * each for each in steady]), other])
    with pytest.raises(SystemExit) as ended:
        bench(monkeypatch, "compare", before, after)
    assert ended.value.code == 1
    slower = [line for line in capsys.readouterr().out.splitlines() if "slower by" in line]
    assert slower == ["slower by 30.0%: g: s, LSTM, forward"]
    bench(monkeypatch, "compare", before, before)
    bench(monkeypatch, "compare", after, before)
    assert "slower by" not in capsys.readouterr().out


def test_compare_knows_noise_from_change(monkeypatch, tmp_path, capsys):
    """Samples that spread over 40 % and are 10 % higher; and a machine at half its rate."""
    noisy = [0.008, 0.009, 0.010, 0.011, 0.012]
    before = saved(tmp_path / "a.json", [row(noisy), row([0.01] * 3, shape="t")])
    after = saved(
        tmp_path / "b.json",
        [row([1.1 * each for each in noisy]), row([0.02] * 3, peak=50.0, shape="t")],
    )
    bench(monkeypatch, "compare", before, after)
    assert "slower by" not in capsys.readouterr().out


READING = {"bytes_read": 10**9, "bandwidth_gbs": 50.0}  # 20 ms, the multiply-adds 10 ms


@pytest.mark.parametrize(
    "before, after, seconds",
    [
        (dict(peak=100.0, **READING), dict(peak=67.0, **READING), 0.025),  # bound by reading
        (dict(READING), dict(READING, bandwidth_gbs=30.0), 0.025),  # whose rate was probed anew
        (dict(peak=100.0), dict(peak=61.0), 0.2),  # a call's cost is 19 of 20 parts of it
    ],
)
def test_compare_does_not_scale_what_the_multiply_adds_do_not_bound(before, after, seconds):
    """8 % more time is 8 %, and the same time no change, whatever the probes say."""
    first = Run({}, {}, {}, [row([seconds] * 3, **before)])
    for factor, verdict in ((1.08, "slower"), (1.0, "same")):
        second = Run({}, {}, {}, [row([factor * seconds] * 3, **after)])
        (change,) = compare.changes(first, second)
        assert (change.relative, change.verdict) == (pytest.approx(factor - 1), verdict)
        assert not change.scaled


def test_compare_scales_what_the_multiply_adds_bound():
    """Half the rate and twice the time is no change; with the rate as before it is one, also where
    the slower run is far from the bound.
    """
    first = Run({}, {}, {}, [row([0.015] * 3)])
    (change,) = compare.changes(first, Run({}, {}, {}, [row([0.03] * 3, peak=50.0)]))
    assert (change.relative, change.scaled) == (pytest.approx(0), True)
    (change,) = compare.changes(first, Run({}, {}, {}, [row([0.045] * 3)]))
    assert (change.relative, change.scaled) == (pytest.approx(2), True)


def ds2_file(path, seconds: float, **changes) -> str:
    """As `bench ds2` writes it; `changes` of the settings that it did not write at first."""
    entry = {
        **{"mode": "lstm", "training": True, "batch": 20, "flops": 10**9},
        **{"native_seconds": [0.03] * 3, "ours_seconds": [seconds] * 3, "peak_gflops": [100.0] * 3},
        "summary": {},
    }
    shape = {"T": 300, "N": 20, "I": 800, "H": 800, "L": 1, "D": 1}
    content = {"shape": shape, "environment": {"threads": 2}, "rows": [entry], **changes}
    path.write_text(json.dumps(content))
    return str(path)


def test_compare_reads_ds2(monkeypatch, tmp_path, capsys):
    before, after = ds2_file(tmp_path / "a.json", 0.012), ds2_file(tmp_path / "b.json", 0.018)
    with pytest.raises(SystemExit) as ended:
        bench(monkeypatch, "compare", before, after)
    assert ended.value.code == 1
    name = "ds2: T300 N20 I800 H800 L1 D1, LSTM, forward+backward"
    assert f"slower by 50.0%: {name}\n" in capsys.readouterr().out
    bench(monkeypatch, "compare", after, before)
    other = ds2_file(tmp_path / "c.json", 0.018, settings={"imperative": True, "dtype": "float32"})
    bench(monkeypatch, "compare", before, other)
    assert "0 rows in both; A alone has 1, B alone 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "No such file"),
        (b"\xff\xfe{\x00}\x00", "expected UTF-8"),
        (b'{"a": "\xe9"}', "expected UTF-8"),
        (b"{", "expected JSON"),
        (b"[]", "expected what `bench grid`"),
        (b"5", "expected what `bench grid`"),
        (b'{"rows": [{"group": "g"}], "environment": {}}', "expected what `bench grid`"),
        (b'{"rows": [1], "environment": {}, "shape": {}}', "expected what `bench"),
    ],
)
def test_unreadable_results_are_named(monkeypatch, tmp_path, content, message):
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content)
    good = saved(tmp_path / "good.json", [])
    for command in (["compare", good, path], ["compare", path, good], ["report", path]):
        with pytest.raises(SystemExit) as ended:
            bench(monkeypatch, *command)
        assert str(path) in str(ended.value.code) and message in str(ended.value.code)

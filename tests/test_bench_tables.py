"""Every table of the benchmarks' page against numbers computed by hand, from one run that has rows
of all types, threads, lengths and neighbours.
"""

from __future__ import annotations

import dataclasses

import pytest
from test_bench_grid import row

from fused_rnn.bench import pages, peers, tables
from fused_rnn.bench.problem import Problem
from fused_rnn.bench.results import Row, Run

PLAIN = Problem("lstm", T=10, N=20, I=8, H=8)
DTYPES = ("float64", "float16", "bfloat16")


def variant(seconds: float, group="g", others=(peers.NATIVE,), **changes) -> Row:
    """Ours takes `seconds` in each of three rounds, each other peer twice that."""
    fields = {field.name for field in dataclasses.fields(Problem)}
    problem = {name: changes.pop(name) for name in list(changes) if name in fields}
    names = (peers.OURS, *others)
    return dataclasses.replace(
        row([seconds] * 3),
        **{
            "group": group,
            "problem": dataclasses.replace(PLAIN, **problem),
            "seconds": {n: [seconds * (1 if n == peers.OURS else 2)] * 3 for n in names},
            "first_seconds": {n: 10 * seconds for n in names},
            "memory": {n: 5_000_000 * (k + 1) for k, n in enumerate(names)},
            "sizes": {
                "workspace_training": 1_000_000,
                "workspace_backward": 2_000_000,
                "reserve": 3_000_000,
                "outputs": 500_000,
            },
            **changes,
        },
    )


def everything() -> list[Row]:
    """Times in ms: 100 for the plain forward, and those of each other kind in the order of a grid
    that would mislead a table that looks for a partner by less than everything.
    """
    rows = []
    for training, factor in ((False, 1), (True, 3)):
        each = {"training": training}
        rows += [
            variant(factor * 0.100, others=(peers.NATIVE, "torch"), **each),
            variant(factor * 0.060, "lengths", ("torch",), variable_length=True, **each),
            variant(factor * 0.120, "lengths", ("torch",), **each),
            variant(factor * 0.150, "busy", (peers.NATIVE, "torch"), contended=True, **each),
            variant(factor * 0.130, "beyond", **each),
            variant(factor * 0.156, "beyond", threads=4, **each),
            variant(factor * 0.260, "fewer", threads=1, **each),
            variant(factor * 0.200, "types", (), dtype="float64", **each),
            variant(factor * 0.050, "types", (), dtype="float16", **each),
            variant(factor * 0.080, "types", (), dtype="bfloat16", **each),
            variant(factor * 0.030, "types", (), dtype="float16", variable_length=True, **each),
            variant(factor * 0.070, "types", (), dtype="bfloat16", threads=4, **each),
            variant(factor * 0.075, "types", (), dtype="bfloat16", contended=True, **each),
        ]
    return rows


@pytest.fixture
def run() -> Run:
    rows = everything()
    for T, seconds in ((10, 0.023), (20, 0.043), (30, 0.063), (1, 5.0)):  # not the last
        common = {"group": "Scaling in T", "T": T, "N": 4}
        rows.append(variant(seconds, **common))
        rows.append(variant(3 * seconds, **common, training=True))
        rows.append(variant(2 * seconds, **common, dtype="float64", others=()))
        rows.append(variant(5 * seconds, **common, threads=1))
    return Run(
        {"command": "python x", "threads": 2, "cpu": "a | b"},
        {peers.OURS: "1", peers.NATIVE: "1.9.1", "torch": "2"},
        {
            "threads": 2,
            "fma_peak_gflops": {"avx2": {"float32": 200.4, "float64": 100.4}},
            "read_bandwidth": {"L2": {"bytes": 2_000_000, "gbs": 99.6}},
        },
        rows,
        {"g: other": "the budget is spent"},
    )


FORWARD = "s, LSTM, forward"
TRAINING = "s, LSTM, forward+backward"


def test_half_types(run):
    """float64 is no partner; each row has that of its own pass, lengths, threads, neighbours."""
    table = tables.half_types(run)
    assert table.lines == [
        ["s, LSTM, forward, float16", "100", "50.0", "2.00"],
        ["s, LSTM, forward, bfloat16", "100", "80.0", "1.25"],
        ["s, LSTM, forward, float16, lengths 1..T", "60.0", "30.0", "2.00"],
        ["s, LSTM, forward, bfloat16, threads: 4", "156", "70.0", "2.23"],
        ["s, LSTM, forward, bfloat16, contended", "150", "75.0", "2.00"],
        ["s, LSTM, forward+backward, float16", "300", "150", "2.00"],
        ["s, LSTM, forward+backward, bfloat16", "300", "240", "1.25"],
        ["s, LSTM, forward+backward, float16, lengths 1..T", "180", "90.0", "2.00"],
        ["s, LSTM, forward+backward, bfloat16, threads: 4", "468", "210", "2.23"],
        ["s, LSTM, forward+backward, bfloat16, contended", "450", "225", "2.00"],
    ]
    no_single = [each for each in run.rows if each.problem.dtype != "float32"]
    assert tables.half_types(dataclasses.replace(run, rows=no_single)) is None


def test_lengths(run):
    """Partners are of the same group. Steps left: the lengths' sum over T of all sequences."""
    left = dataclasses.replace(PLAIN, variable_length=True).lengths().sum() / 200
    table = tables.lengths(run)
    assert table.columns == ["", "steps left", "ours, ms", "PyTorch, ms", "ONNX Runtime, ms"]
    assert table.lines == [
        [FORWARD, f"{left:.0%}", "120 -> 60.0: 50%", "240 -> 120: 50%", "-"],
        ["s, LSTM, forward, float16", f"{left:.0%}", "50.0 -> 30.0: 60%", "-", "-"],
        [TRAINING, f"{left:.0%}", "360 -> 180: 50%", "720 -> 360: 50%", "-"],
        ["s, LSTM, forward+backward, float16", f"{left:.0%}", "150 -> 90.0: 60%", "-", "-"],
    ]


def test_contention(run):
    """The partner is the row that has the most peers, here that of 100 ms, not of 120 or 130."""
    table = tables.contention(run)
    assert table.columns == ["", "ours", "MXNet native", "PyTorch"]
    assert table.lines == [
        [FORWARD, "1.50", "1.50", "1.50"],
        ["s, LSTM, forward, bfloat16", "0.94", "-", "-"],
        [TRAINING, "1.50", "1.50", "1.50"],
        ["s, LSTM, forward+backward, bfloat16", "0.94", "-", "-"],
    ]


def test_crowding(run):
    table = tables.crowding(run)
    assert table.lines == [
        ["s, LSTM, forward, threads: 4", "1.20", "1.20"],
        ["s, LSTM, forward, bfloat16, threads: 4", "0.88", "-"],
        ["s, LSTM, forward+backward, threads: 4", "1.20", "1.20"],
        ["s, LSTM, forward+backward, bfloat16, threads: 4", "0.88", "-"],
    ]


def test_call_and_step(run):
    """A line for each kind of row: 3 ms and 2 ms a step, times 1, 3, 2 and 5; natively twice."""
    table = tables.call_and_step(run)
    assert table.columns == ["", "", "call, ms", "step, ms"]
    assert table.lines == [
        ["LSTM, forward", "ours", "3.0", "2.0"],
        ["LSTM, forward", "MXNet native", "6.0", "4.0"],
        ["LSTM, forward+backward", "ours", "9.0", "6.0"],
        ["LSTM, forward+backward", "MXNet native", "18.0", "12.0"],
        ["LSTM, forward, float64", "ours", "6.0", "4.0"],
        ["LSTM, forward, threads: 1", "ours", "15.0", "10.0"],
        ["LSTM, forward, threads: 1", "MXNet native", "30.0", "20.0"],
    ]


def test_times(run):
    """1e9 operations at 100 GFLOP/s are 10 ms, whatever the type; 1e6 bytes at 50 GB/s less."""
    found = {table.title: table for table in tables.groups(run)}
    assert list(found)[:3] == ["g", "lengths", "busy"]
    assert found["g"].columns[5:7] == ["MXNet native", "PyTorch"]
    bound = ["10.0", "FLOPs"]
    twice = ": 2.00 (2.00-2.00)"
    assert found["g"].lines[0] == [
        *(FORWARD, *bound, "100 (100-100)", "10%", f"200{twice}", f"200{twice}", "0%", "3"),
    ]
    assert found["beyond"].lines[1][0] == "s, LSTM, forward, threads: 4"
    assert found["beyond"].lines[1][3:6] == ["156 (156-156)", "6%", f"312{twice}"]
    assert found["busy"].note == "One core is shared with a busy process."
    assert found["types"].note == ""
    assert [line[0] for line in found["types"].lines[:6]] == [
        "s, LSTM, forward, float64",
        "s, LSTM, forward, float16",
        "s, LSTM, forward, bfloat16",
        "s, LSTM, forward, float16, lengths 1..T",
        "s, LSTM, forward, bfloat16, threads: 4",
        "s, LSTM, forward, bfloat16, contended",
    ]
    assert found["types"].columns[5:] == ["others", "rounds"]


def test_latency(run):
    calls = {peers.OURS: [k / 1000 for k in range(1, 101)]}
    rows = [variant(0.05, calls=calls), variant(0.05, calls=calls, threads=4, dtype="float16")]
    table = tables.latency(rows, run)
    assert table.lines == [
        [FORWARD, "50.0 / 90.0 / 99.0", "-"],
        ["s, LSTM, forward, float16, threads: 4", "50.0 / 90.0 / 99.0", "-"],
    ]


def test_first_calls(run):
    """One line for each problem: that of the most peers. No training, contention or scaling."""
    table = tables.first_calls(run)
    lines = {line[0]: line[1:] for line in table.lines}
    assert len(lines) == len(table.lines)
    assert lines[FORWARD] == ["1000 / 100", "1000 / 200", "1000 / 200"]
    assert lines["s, LSTM, forward, threads: 4"] == ["1560 / 156", "1560 / 312", "-"]
    assert lines["s, LSTM, forward, float64"] == ["2000 / 200", "-", "-"]
    assert lines["s, LSTM, forward, lengths 1..T"] == ["600 / 60.0", "-", "600 / 120"]
    assert len(lines) == 9 and not any("backward" in name for name in lines)


def test_memory(run):
    table = tables.memory(run)
    lines = {line[0]: line[1:] for line in table.lines}
    assert len(lines) == len(table.lines) == 18
    assert lines[FORWARD] == ["5.0", "10.0", "4.5", "1.0 + 3.0 + 0.5"]
    assert lines[TRAINING] == ["5.0", "10.0", "5.5", "2.0 + 3.0 + 0.5"]
    assert lines["s, LSTM, forward, float64"] == ["5.0", "-", "4.5", "1.0 + 3.0 + 0.5"]
    assert not any("contended" in name for name in lines)


def test_roofs_and_machine(run):
    assert tables.roofs(run).lines == [
        ["FMA, float32, avx2", "200 GFLOP/s"],
        ["FMA, float64, avx2", "100 GFLOP/s"],
        ["reading 2.0 MB (L2)", "100 GB/s"],
    ]
    assert tables.machine(run).lines == [
        ["command", "python x"],
        ["threads", "2"],
        ["cpu", "a | b"],
        ["MXNet native", "1.9.1"],
        ["PyTorch", "2"],
    ]


def test_page(run, tmp_path):
    """All of them, in Markdown whose cells keep their bars."""
    titles = [table.title for table in pages.everything(run)]
    assert len(titles) == len(set(titles))
    for table in (tables.half_types, tables.lengths, tables.contention, tables.crowding):
        assert table(run).title in titles
    text = pages.page(run, [], tmp_path)
    assert r"| cpu | a \| b |" in text
    assert "| g: other | the budget is spent |" in text

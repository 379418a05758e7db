"""Mixed precision by mx.contrib.amp."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from helpers import check, check_outputs, make, run, run_code, run_tests, to_numpy
from mxnet.contrib import amp
from reference import MODES

import fused_rnn

NAMES = ("data", "parameters", "state", "state_cell")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_initialised(dtype):
    """It wraps functions for good, so another process runs these tests."""
    run_tests("amp_cases.py", AMP_DTYPE=dtype)


def converted_model(problem, dtype, lengths=False, **options):
    """A stock symbol moved to our operator and then to mixed precision, and its arrays."""
    shape = problem.shape
    names = NAMES[: len(problem.inputs)]
    keywords = {"sequence_length": mx.sym.var("lengths")} if lengths else {}
    symbol = mx.sym.RNN(
        *map(mx.sym.var, names),
        **keywords,
        mode=shape.mode,
        state_size=shape.H,
        num_layers=shape.L,
        bidirectional=shape.D == 2,
        state_outputs=True,
        use_sequence_length=lengths,
        name="rnn",
    )
    arrays = {name: mx.nd.array(value) for name, value in zip(names, problem.inputs)}
    params = {"parameters": arrays["parameters"]}
    symbol = fused_rnn.convert(symbol)
    symbol, params, _ = amp.convert_model(symbol, params, {}, target_dtype=dtype, **options)
    return symbol, {**arrays, **params}


@pytest.mark.parametrize("cast_optional_params", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mode", MODES)
def test_convert_model(mode, dtype, cast_optional_params):
    problem = make(mode, L=2, D=2, dtype="float16")
    symbol, arrays = converted_model(problem, dtype, cast_optional_params=cast_optional_params)
    found = symbol.eval(ctx=mx.cpu(), **arrays)
    check_outputs(map(to_numpy, found), problem.outputs(), problem.shape, dtype)
    assert (dtype == "float16") == ("amp_cast_float16" in symbol.tojson(remove_amp_cast=False))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_whole_lengths_in_a_converted_model(dtype):
    """AMP casts no int32, so they stay exact."""
    problem, symbol, arrays = long_model(dtype)
    check_ends(symbol, arrays, mx.nd.array(problem.options["lengths"], dtype="int32"))


@pytest.mark.parametrize("length_type", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_conversion_after_that_of_amp(dtype, length_type):
    """It takes the casts of lengths out."""
    problem, symbol, arrays = long_model(dtype)
    symbol = fused_rnn.convert(symbol)
    lengths = mx.nd.array(problem.options["lengths"], dtype=length_type)
    check_ends(symbol, arrays, lengths)
    if dtype == "float16":  # the other casts are still there
        y = symbol.eval(ctx=mx.cpu(), lengths=lengths, **arrays)[0]
        assert "amp_cast" in symbol.tojson(remove_amp_cast=False)
        check(to_numpy(y), problem.outputs().y, problem.shape, dtype)


def long_model(dtype):
    """A float16 would hold 2500 or 2502 for the first length."""
    problem = make("gru", T=2503, H=1, I=1, dtype="float16", lengths=[2501, 2499])
    return problem, *converted_model(problem, dtype, lengths=True)


def check_ends(symbol, arrays, lengths):
    y = to_numpy(symbol.eval(ctx=mx.cpu(), lengths=lengths, **arrays)[0])
    assert [np.flatnonzero(y[:, n, 0]).max() for n in (0, 1)] == [2500, 2498]


BLOCKS = {
    "LSTM": lambda: fused_rnn.gluon.LSTM(4, 2, bidirectional=True),
    "GRU": lambda: fused_rnn.gluon.GRU(4, layout="NTC"),
    "RNN": lambda: fused_rnn.gluon.RNN(4),
    "Stack": lambda: fused_rnn.gluon.Stack(fused_rnn.gluon.LSTM(3), fused_rnn.gluon.GRU(4)),
    "converted": lambda: fused_rnn.convert(mx.gluon.rnn.GRU(4, bidirectional=True)),
}
X = np.random.default_rng(0).standard_normal((5, 2, 3))


@pytest.mark.parametrize("cast_optional_params", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("block", BLOCKS)
def test_convert_hybrid_block(block, dtype, cast_optional_params):
    net, inputs = BLOCKS[block](), [mx.nd.array(X)]
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    expected = net(*inputs).asnumpy()
    if block == "converted":  # MXNet's graph has the initial states as inputs
        inputs += net.begin_state(2)
    mixed = amp.convert_hybrid_block(
        net, dtype, ctx=mx.cpu(), cast_optional_params=cast_optional_params
    )
    check(to_numpy(mixed(*inputs)), expected, make("lstm", L=2).shape, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_long_sequences_in_a_converted_block(dtype):
    """Layers keep lengths out of AMP's casts, whatever their type."""
    net = fused_rnn.gluon.GRU(1, use_sequence_length=True)
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    x, lengths = mx.nd.ones((2503, 2, 1)), mx.nd.array([2501, 2499])
    net(x, None, lengths)
    mixed = amp.convert_hybrid_block(net, dtype, ctx=mx.cpu())
    y = to_numpy(mixed(x, lengths))
    assert [np.flatnonzero(y[:, n, 0]).max() for n in (0, 1)] == [2500, 2498]


def test_initialised_before_the_import():
    code = "from mxnet.contrib import amp; amp.init('float16'); import fused_rnn"
    done = run(["-W", "error::RuntimeWarning", "-c", code])
    assert done.returncode and "import fused_rnn before" in done.stdout
    run_code("import fused_rnn; from mxnet.contrib import amp; amp.init('float16')")

"""Around a call: settings that change, bound threads, forks, signals, the end of a process."""

from __future__ import annotations

import os

import pytest
from helpers import run, run_code

# A bidirectional layer whose steps are worth several threads, by every way into the library.
ROUTES = """
import ctypes, sys, threading
import mxnet as mx
import numpy as np
import fused_rnn
from fused_rnn import _core, functional
from helpers import core_backward, core_forward, make, operator_gradients

problem = make("lstm", T=20, N=16, I=24, H=96, D=2, dtype="float32")
x, params, h0, c0 = (array.astype("float32") for array in problem.inputs)
stream = fused_rnn.Stream("lstm", params[: 4 * 96 * (24 + 96 + 2)], hidden_size=96, batch_size=16)

def core():
    y, hN, cN, reserve = core_forward(problem, "float32", training=True)
    return [y, hN, cN, *core_backward(problem, y, reserve, "float32")]

def operator():
    outputs, gradients = operator_gradients(problem, "float32")
    return [*outputs, *gradients]

def numpy():
    out = functional.lstm(x, params, h0, c0, bidirectional=True, training=True)
    return [*out, *out.backward(dy=out.y)]

def streaming():
    stream.reset()
    return [stream(x)]

routes = (core, operator, numpy, streaming)
def bits(arrays):
    return [array.tobytes() for array in arrays]
"""

OPENMP = (
    ROUTES
    + """
assert _core.num_threads() == 1  # OMP_NUM_THREADS
expected = [bits(route()) for route in routes]
ctypes.CDLL("libgomp.so.1").omp_set_num_threads(4)
assert _core.num_threads() == 4  # OpenMP's setting of this thread, not of the others
for _ in range(20):
    assert [bits(route()) for route in routes] == expected
print("same")
"""
)

SETTINGS = (
    ROUTES
    + """
_core.set_num_threads(1)
expected = [bits(route()) for route in routes]
over = threading.Event()
def change():
    count = 0
    while not over.wait(50e-6):
        count += 1
        _core.set_num_threads(count % 6)
changer = threading.Thread(target=change)
changer.start()
try:
    for _ in range(30):
        assert [bits(route()) for route in routes] == expected
finally:
    over.set()
    changer.join()
print("same")
"""
)


@pytest.mark.parametrize("engine", ["ThreadedEnginePerDevice", "NaiveEngine"])
@pytest.mark.parametrize("code", [OPENMP, SETTINGS], ids=["openmp", "settings"])
def test_settings_that_change_while_calls_run(code, engine):
    threads = "1" if code is OPENMP else None
    assert "same" in run_code(code, OMP_NUM_THREADS=threads, MXNET_ENGINE_TYPE=engine)


THREADS = "from fused_rnn import _core; print('threads', _core.num_threads())"


def number_of_threads(**env) -> int:
    return int(run_code(THREADS, **env).split("threads")[1])


def test_numbers_of_threads_in_the_environment():
    assert number_of_threads(OMP_NUM_THREADS="3") == 3
    default = number_of_threads(OMP_NUM_THREADS=None)
    assert number_of_threads(OMP_NUM_THREADS="") == default


MANY_THREADS = """
from fused_rnn import _core
from helpers import check_gradients, core_gradients, make
assert _core.num_threads() == 1024
problem = make("gru", T=3, N=8, I=5, H=40, dtype="float32")
check_gradients(core_gradients(problem, "float32"), problem.gradients(), problem.shape, "float32")
print("right")
"""


def test_a_number_of_threads_beyond_all_measure_is_bounded():
    assert "right" in run_code(MANY_THREADS, OMP_NUM_THREADS="100000")


BOUND = """
import os
from fused_rnn import _core
from helpers import core_forward, make
assert len(os.sched_getaffinity(0)) == 1  # OpenMP has bound the first thread
allowed = int(os.environ["ALLOWED"])
assert _core.num_threads() in (1, allowed), _core.num_threads()
_core.set_num_threads(3)
core_forward(make("lstm", T=20, N=40, I=64, H=128), training=True)
masks = [len(os.sched_getaffinity(int(task))) for task in os.listdir("/proc/self/task")]
print("free", sum(mask == allowed for mask in masks))
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_threads_run_where_the_process_may_though_openmp_binds_its_own():
    allowed = str(len(os.sched_getaffinity(0)))
    out = run_code(BOUND, OMP_PROC_BIND="true", OMP_NUM_THREADS=None, ALLOWED=allowed)
    assert int(out.split("free")[1]) >= 2, out


HAMMER = (
    ROUTES
    + """
import os, signal
expected = [bits(route()) for route in routes]
sizes = iter(range(10_000))
def pack():
    _core.PackedWeights("lstm", params, 24, 96, bidirectional=True)
def allocate():
    # Sizes of products that the matrix library has no code for yet, and of buffers.
    T, N = 1 + next(sizes) % 40, 1 + next(sizes) % 37
    out = functional.gru(np.ones((T, N, 24), "f"), np.ones(3 * 40 * 66, "f"), hidden_size=40,
                         training=True)
    out.backward(out.y)
def describe():
    for _ in range(100):
        fused_rnn.weights.Layout("lstm", 24, 96, 3, True).size
over = False
def repeat(call):
    while not over:
        call()
def fork(routes):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends one that hangs
        code = 1
        try:
            for _ in range(2):
                assert [bits(route()) for route in routes] == expected[: len(routes)]
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
routes = (core, numpy, streaming, operator)
expected = [expected[k] for k in (0, 2, 3, 1)]
_core.set_num_threads(3)
try:
    # The operator runs between the forks: MXNet's own engine does not survive one while threads
    # wait for it, in the parent neither.
    calls = (core, numpy, streaming, pack, allocate, describe, core, numpy)
    threads = [threading.Thread(target=repeat, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for _ in range(25):
        fork(routes[:3])
        operator()
    for _ in range(10):
        fork(routes)
finally:
    over = True
for thread in threads:
    thread.join()
print("same")
"""
)


def test_forks_while_eight_threads_compute():
    assert "same" in run_code(HAMMER, timeout=300)


DAEMONS = """
import sys, threading, time
import numpy as np
import fused_rnn
from fused_rnn import _core, functional
x, params = np.ones((60, 16, 64), "f"), np.full(4 * 64 * 130, 0.01, "f")
strided = np.ones((400, 16, 64), "f")[::-1]
stream = fused_rnn.Stream("lstm", params, hidden_size=64)
def train():
    out = functional.lstm(x, params, hidden_size=64, training=True)
    out.backward(out.y)
def long():
    functional.lstm(np.ones((100_000, 4, 64), "f"), params, hidden_size=64)
def step():
    stream(x[:1, 0])
def copy():
    functional.lstm(strided, params, hidden_size=64)
def pack():
    _core.PackedWeights("lstm", params, 64, 64)
def probe():
    _core.fma_peak(seconds=1000)
def forever(call):
    while True:
        call()
for call in (train, long, step, copy, pack, probe):
    threading.Thread(target=forever, args=(call,), daemon=True).start()
time.sleep(0.2)
print("over")
sys.exit(3)
"""


def test_a_process_ends_with_its_own_code_whatever_its_threads_do():
    for _ in range(3):
        done = run(["-c", DAEMONS])
        assert done.returncode == 3, done.stdout
        assert done.stdout.splitlines() == ["over"]


EXIT_OF_A_CHILD = """
import os, sys, threading
import numpy as np
from fused_rnn import functional
x, params = np.ones((60, 16, 64), "f"), np.full(4 * 64 * 130, 0.01, "f")
def call():
    return functional.lstm(x, params, hidden_size=64)
def forever():
    while True:
        call()
threading.Thread(target=forever, daemon=True).start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        call()
        sys.exit(5)  # through the interpreter's end, while the parent's call is in flight
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
print("over")
"""


@pytest.mark.skipif(not hasattr(os, "waitstatus_to_exitcode"), reason="Python before 3.9")
def test_a_child_does_not_wait_for_calls_of_its_parent():
    assert "over" in run_code(EXIT_OF_A_CHILD)


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
signal.signal(signal.SIGINT, signal.default_int_handler)  # which may be ignored here
from fused_rnn import _core
T, N, H = 250, 16, 2048  # a second or more on two cores of any kind
_core.set_num_threads(2)
x, params = np.ones((T, N, H), "f"), np.full(4 * H * (2 * H + 2), 0.01, "f")
state = np.zeros((1, N, H), "f")
y, _, _, reserve = _core.forward("lstm", x, params, state, state, training=True)
dx = np.empty_like(x)
filled = threading.Event()
def backward():
    dx.fill(np.nan)
    filled.set()
    _core.backward("lstm", x, params, state, state, y, reserve, dy=y, dx=dx)
def interrupt():
    filled.wait()
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    while True:  # on a fast machine a call may end before
        backward()
except KeyboardInterrupt:
    print("unfinished", np.isnan(dx).any())
first = state[:, :1]
assert np.isfinite(_core.forward("lstm", x[:1, :1], params, first, first)[0]).all()
"""


def test_ctrl_c_ends_a_long_call():
    assert "unfinished True" in run_code(INTERRUPTED)


NO_MEMORY = """
import resource
import mxnet as mx
import numpy as np
import fused_rnn
from fused_rnn import _core, functional
from helpers import core_gradients, make, operator_gradients
problem = make("lstm", T=3, N=4, I=8, H=16, dtype="float32")
before = core_gradients(problem, "float32"), operator_gradients(problem, "float32")
mx.nd.waitall()
def used():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = used() + (600 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
def expect(kind, call):
    try:
        call()
    except kind as error:
        assert "memory" in str(error), error
    else:
        raise AssertionError("expected an error")
H = 4000
params = np.broadcast_to(np.float32(0), 4 * H * (1 + H + 2)).copy()  # 256 MB
x = np.zeros((1, 1, 1), "f")
long = np.zeros((20_000, 20, 1), "f")
expect(MemoryError, lambda: [_core.PackedWeights("lstm", params, 1, H) for _ in range(4)])
expect(MemoryError, lambda: [fused_rnn.Stream("lstm", params, hidden_size=H) for _ in range(4)])
expect(MemoryError, lambda: functional.gru(long, np.zeros(3 * 64 * 67, "f"), hidden_size=64,
                                           training=True))
def operator():
    data, state = mx.nd.array(long), mx.nd.zeros((1, 20, 64))
    parameters = mx.nd.zeros(3 * 64 * 67)
    parameters.attach_grad()
    with mx.autograd.record():
        y = mx.nd.FusedRNN(data, parameters, state, mode="gru", state_size=64, num_layers=1)
    y.wait_to_read()
expect(mx.MXNetError, operator)
after = core_gradients(problem, "float32"), operator_gradients(problem, "float32")
for a, b in zip(before[0], after[0]):
    assert (a == b).all()
for a, b in zip(sum(before[1], []), sum(after[1], [])):
    assert (a == b).all()
print("right")
"""


def test_lack_of_memory_is_an_error_of_its_kind_and_the_process_goes_on():
    assert "right" in run_code(NO_MEMORY)


RESERVES = """
import os, threading
import numpy as np
from fused_rnn import _core
x, params = np.ones((50, 8, 128), "f"), np.full(4 * 128 * 258, 0.01, "f")
state = np.zeros((1, 8, 128), "f")
def forward():
    *_, reserve = _core.forward("lstm", x, params, state, state, training=True)
    return reserve
reserves = [forward() for _ in range(3)]
same = reserves[2].copy()
assert reserves[0].nbytes < 4 << 20  # from the C library
x = np.ones((600, 8, 128), "f")
reserves += [forward() for _ in range(3)]
assert reserves[3].nbytes > 4 << 20  # a mapping of its own
threads = [threading.Thread(target=reserves.pop, args=(i,)) for i in (4, 1)]
for thread in threads:
    thread.start()
    thread.join()
child = os.fork()
if child == 0:
    del reserves[0], reserves[1]
    assert forward().nbytes == reserves[-1].nbytes
    os._exit(0 if (reserves[0] == same).all() else 1)
assert os.waitpid(child, 0)[1] == 0
assert (reserves[1] == same).all()
print("right")
"""


def test_a_reserve_may_end_in_any_thread_in_a_forked_process_and_at_exit():
    assert "right" in run_code(RESERVES)

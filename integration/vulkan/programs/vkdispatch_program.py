# SPDX-License-Identifier: MIT OR Apache-2.0
# Adds two arrays, and transforms one, with vkdispatch. With --figures, times transforms.
import json
import sys
import time

import numpy as np
import vkdispatch as vd
import vkdispatch.codegen as vc

vd.make_context(use_cpu=True)

COUNT = 4096
RUNS = 30


@vd.shader("buffer.size")
def add(buffer: vc.Buff[vc.f32], other: vc.Buff[vc.f32]):
    index = vc.global_invocation_id().x
    buffer[index] = buffer[index] + other[index]


def transforms(length, count):
    """The median time of a transform of each row in nanoseconds, until its result is here."""
    random = np.random.default_rng(1)
    rows = (random.random((count, length)) + 0j).astype(np.complex64)
    buffer = vd.Buffer((count, length), vd.complex64)
    times = []
    for _ in range(RUNS):
        buffer.write(rows)
        start = time.perf_counter_ns()
        vd.fft.fft(buffer)
        result = buffer.read(0)
        times.append(time.perf_counter_ns() - start)
    assert np.allclose(result, np.fft.fft(rows), atol=1e-1)
    return sorted(times)[RUNS // 2]


if "--figures" in sys.argv:
    print(json.dumps({"fft_1024": transforms(1024, 1), "fft_256_rows_of_1024": transforms(1024, 256)}))
    sys.exit()

numbers = np.arange(COUNT, dtype=np.float32)
one, two = vd.Buffer((COUNT,), vd.float32), vd.Buffer((COUNT,), vd.float32)
one.write(numbers)
two.write(numbers * 2)
add(one, two)
assert (one.read(0) == numbers * 3).all()

signal = np.random.default_rng(1).random(1024) + 0j
signal = signal.astype(np.complex64)
transformed = vd.Buffer((1024,), vd.complex64)
transformed.write(signal)
vd.fft.fft(transformed)
assert np.allclose(transformed.read(0), np.fft.fft(signal), atol=1e-3)
print("every number is right")

# SPDX-License-Identifier: MIT OR Apache-2.0
# Adds two arrays, and transforms one and back, with vkdispatch.
import numpy as np
import vkdispatch as vd
import vkdispatch.codegen as vc

vd.make_context(use_cpu=True)

COUNT = 4096


@vd.shader("buffer.size")
def add(buffer: vc.Buff[vc.f32], other: vc.Buff[vc.f32]):
    index = vc.global_invocation_id().x
    buffer[index] = buffer[index] + other[index]


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

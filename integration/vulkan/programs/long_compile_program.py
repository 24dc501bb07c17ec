# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes ever longer shaders with hephaistos, until one takes longer to compile than the device lets work take.
import sys
import time

import hephaistos as hp
import numpy as np

SECONDS = float(sys.argv[1])
MOST = 1 << 13
HEAD = """
#version 460
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) buffer Numbers { uint numbers[]; };
void main() {
    uint index = gl_GlobalInvocationID.x;
    uint x = numbers[index];
"""


def steps(count):
    """Steps that are all different, each with a branch and a look at memory."""
    for step in range(count):
        yield f"    x = x * {2 * step + 3}u + {step}u;\n"
        yield f"    if (x % {step + 2}u == 1u) x += numbers[(index + {step}u) % 64u];\n"


def expected(values, count):
    """The same for the first invocation."""
    x = values[0]
    for step in range(count):
        x = (x * (2 * step + 3) + step) % 2**32
        if x % (step + 2) == 1:
            x = (x + values[step % 64]) % 2**32
    return x


count, took = 32, 0.0
while took < SECONDS:
    count *= 2
    assert count <= MOST, f"{count // 2} steps took {took:.1f} s to compile"
    code = hp.Compiler().compile(HEAD + "".join(steps(count)) + "    numbers[index] = x;\n}\n")
    source, result = hp.UnsignedIntBuffer(64), hp.UnsignedIntBuffer(64)
    source.numpy()[:] = values = np.arange(64, dtype=np.uint32) * 7 + 5
    tensor = hp.UnsignedIntTensor(64)
    start = time.monotonic()
    program = hp.Program(code)
    program.bindParams(tensor)
    (
        hp.beginSequence()
        .And(hp.updateTensor(source, tensor))
        .Then(program.dispatch(1))
        .Then(hp.retrieveTensor(tensor, result))
        .Submit()
        .wait()
    )
    took = time.monotonic() - start
    assert result.numpy()[0] == expected([int(value) for value in values], count)
print("every number is right")

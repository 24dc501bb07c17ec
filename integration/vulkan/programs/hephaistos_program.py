# SPDX-License-Identifier: MIT OR Apache-2.0
# Maps an array with hephaistos, from a buffer through the device's memory and back.
import hephaistos as hp
import numpy as np

CODE = """
#version 460
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) readonly buffer From { uint from[]; };
layout(set = 0, binding = 1, std430) writeonly buffer To { uint to[]; };
layout(push_constant) uniform Arguments { uint count; };
void main() {
    uint index = gl_GlobalInvocationID.x;
    if (index < count) to[index] = from[index] * 2 + 1;
}
"""
COUNT = 100_000
source, result = hp.UnsignedIntBuffer(COUNT), hp.UnsignedIntBuffer(COUNT)
source.numpy()[:] = np.arange(COUNT)
first, second = hp.UnsignedIntTensor(COUNT), hp.UnsignedIntTensor(COUNT)
program = hp.Program(hp.Compiler().compile(CODE))
program.bindParams(first, second)
(
    hp.beginSequence()
    .And(hp.updateTensor(source, first))
    .Then(program.dispatchPush(np.uint32(COUNT).tobytes(), (COUNT + 63) // 64))
    .Then(hp.retrieveTensor(second, result))
    .Submit()
    .wait()
)
assert (result.numpy() == np.arange(COUNT) * 2 + 1).all()
print("every number is right")

# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs a small network with ncnn, on the GPU and on the processor.
import tempfile

import ncnn
import numpy as np

LAYERS = """7767517
4 4
Input data 0 1 data 0=32 1=32 2=3
Pooling pool 1 1 data pooled 0=1 1=2 2=2
ReLU relu 1 1 pooled positive 0=0.1
Sigmoid out 1 1 positive out
"""


def outcome(on_gpu):
    net = ncnn.Net()
    net.opt.use_vulkan_compute = on_gpu
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    with tempfile.NamedTemporaryFile("w", suffix=".param") as file:
        file.write(LAYERS)
        file.flush()
        assert net.load_param(file.name) == 0
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        net.load_model(file.name)
    data = np.random.default_rng(1).standard_normal((3, 32, 32)).astype(np.float32)
    extractor = net.create_extractor()
    extractor.input("data", ncnn.Mat(data))
    status, out = extractor.extract("out")
    assert status == 0
    return np.array(out)


assert ncnn.get_gpu_count() > 0, "no GPU"
assert np.allclose(outcome(True), outcome(False), atol=1e-3)
print("every number is right")

# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs a small network with ncnn, on the GPU and on the processor. With --figures, times a larger one on the GPU.
import json
import sys
import tempfile
import time

import ncnn
import numpy as np

LAYERS = """7767517
4 4
Input data 0 1 data 0=32 1=32 2=3
Pooling pool 1 1 data pooled 0=1 1=2 2=2
ReLU relu 1 1 pooled positive 0=0.1
Sigmoid out 1 1 positive out
"""

LARGER = """7767517
8 8
Input data 0 1 data 0=64 1=64 2=16
Convolution one 1 1 data one 0=32 1=3 4=1 5=1 6=4608 9=1
Convolution two 1 1 one two 0=32 1=3 4=1 5=1 6=9216 9=1
Pooling pool 1 1 two pooled 0=0 1=2 2=2
Convolution three 1 1 pooled three 0=64 1=3 4=1 5=1 6=18432 9=1
Convolution four 1 1 three four 0=64 1=3 4=1 5=1 6=36864 9=1
InnerProduct inner 1 1 four inner 0=64 1=1 2=4194304
Softmax out 1 1 inner out
"""
WEIGHTS = [(4608, 32), (9216, 32), (18432, 64), (36864, 64), (4194304, 64)]
RUNS = 20


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


def larger():
    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    random = np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/param", "w") as file:
            file.write(LARGER)
        with open(folder + "/bin", "wb") as file:
            for weights, biases in WEIGHTS:
                file.write(bytes(4))
                file.write((random.standard_normal(weights) / 64).astype(np.float32).tobytes())
                file.write(np.zeros(biases, np.float32).tobytes())
        assert net.load_param(folder + "/param") == 0
        assert net.load_model(folder + "/bin") == 0
    data = ncnn.Mat(random.standard_normal((16, 64, 64)).astype(np.float32))
    times = []
    for _ in range(RUNS):
        start = time.perf_counter_ns()
        extractor = net.create_extractor()
        extractor.input("data", data)
        status, out = extractor.extract("out")
        assert status == 0 and abs(np.array(out).sum() - 1) < 1e-3
        times.append(time.perf_counter_ns() - start)
    return sorted(times)[RUNS // 2]


assert ncnn.get_gpu_count() > 0, "no GPU"
if "--figures" in sys.argv:
    print(json.dumps({"ncnn": larger()}))
    sys.exit()
assert np.allclose(outcome(True), outcome(False), atol=1e-3)
print("every number is right")

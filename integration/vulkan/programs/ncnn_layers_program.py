# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs each kind of layer of ncnn's that has a Vulkan form in a network of its own, on the GPU and on the processor.
import tempfile

import ncnn
import numpy as np

VOLUME, MATRIX, VECTOR = (8, 12, 16), (12, 16), (24,)
# Weights begin with a tag where they may be in another format.
TAGGED, PLAIN = True, False


def layer(parameters="", inputs=(VOLUME,), weights=(), outputs=1, then=""):
    """A network of a layer: its parameters, its inputs' shapes (channels, rows, columns), its weights' sizes, the number of
    its outputs, and another layer that follows."""
    return parameters, inputs, weights, outputs, then


LAYERS = {
    "AbsVal": layer(),
    "BatchNorm": layer("0=8", weights=[(8, PLAIN)] * 4),
    "BinaryOp": layer("0=2", [VOLUME, VOLUME]),
    "CELU": layer("0=1.3"),
    "Cast": layer("0=1 1=2", then="Cast 0=2 1=1"),
    "Clip": layer("0=-0.5 1=0.5"),
    "Concat": layer("0=0", [VOLUME, VOLUME]),
    "Convolution": layer("0=6 1=3 4=1 5=1 6=432 9=1", weights=[(432, TAGGED), (6, PLAIN)]),
    "Convolution1D": layer("0=5 1=3 5=1 6=180", [MATRIX], [(180, TAGGED), (5, PLAIN)]),
    "ConvolutionDepthWise": layer("0=8 1=3 5=1 6=72 7=8", weights=[(72, TAGGED), (8, PLAIN)]),
    "Crop": layer("0=2 1=3 2=1 3=7 4=5 5=4"),
    "Deconvolution": layer("0=4 1=3 3=2 5=1 6=288", weights=[(288, TAGGED), (4, PLAIN)]),
    "DeconvolutionDepthWise": layer("0=8 1=3 3=2 5=1 6=72 7=8", weights=[(72, TAGGED), (8, PLAIN)]),
    "DeepCopy": layer(),
    "Dropout": layer("0=0.5"),
    "ELU": layer("0=0.2"),
    "Eltwise": layer("0=1", [VOLUME, VOLUME]),
    "Erf": layer(),
    "Flatten": layer(),
    "GELU": layer("0=1"),
    "Gemm": layer("3=1", [(12, 16), (20, 16)]),
    "GroupNorm": layer("0=2 1=8 2=0.001 3=1", weights=[(8, PLAIN)] * 2),
    "HardSigmoid": layer("0=0.2 1=0.5"),
    "HardSwish": layer("0=0.2 1=0.5"),
    "InnerProduct": layer("0=10 1=1 2=240", [VECTOR], [(240, TAGGED), (10, PLAIN)]),
    "InstanceNorm": layer("0=8 1=0.001 2=1", weights=[(8, PLAIN)] * 2),
    "Interp": layer("0=2 1=2.0 2=2.0"),
    "LRN": layer("0=0 1=5 2=0.1 3=0.75"),
    "LayerNorm": layer("0=16 1=0.001 2=1", weights=[(16, PLAIN)] * 2),
    "MemoryData": layer("0=16 1=12 2=8", [], [(8 * 12 * 16, PLAIN)]),
    "Mish": layer(),
    "MultiHeadAttention": layer("0=16 1=4 2=256", [(12, 16)], [(256, TAGGED), (16, PLAIN)] * 4),
    "Noop": layer(),
    "Normalize": layer("0=1 1=0 2=0.0001 3=8 4=1", weights=[(8, PLAIN)]),
    "PReLU": layer("0=8", weights=[(8, PLAIN)]),
    "Packing": layer("0=4", then="Packing 0=1"),
    "Padding": layer("0=1 1=2 2=3 3=1 4=0 5=0.5"),
    "Permute": layer("0=3"),
    "PixelShuffle": layer("0=2"),
    "Pooling": layer("0=1 1=3 2=2"),
    "PriorBox": layer(
        "-23300=1,4.0 -23301=1,9.0 -23302=1,2.0 7=1 9=-233 10=-233 11=-233.0 12=-233.0 13=0.5",
        [(4, 5, 6), (3, 50, 60)],
    ),
    "Quantize": layer("0=1", weights=[(1, PLAIN)]),
    "RMSNorm": layer("0=16 1=0.001 2=1", weights=[(16, PLAIN)]),
    "ReLU": layer("0=0.1"),
    "Reduction": layer("0=3 1=0 -23303=1,0 4=1 5=1"),
    "Reorg": layer("0=2"),
    "Reshape": layer("0=32 1=6 2=8"),
    "RotaryEmbed": layer("0=0", [(4, 12, 16), (12, 8), (12, 8)]),
    "SDPA": layer("", [(4, 12, 16)] * 3),
    "SELU": layer("0=1.67 1=1.05"),
    "Scale": layer("0=8 1=1", weights=[(8, PLAIN)] * 2),
    "Shrink": layer("0=0.1 1=0.5"),
    "ShuffleChannel": layer("0=2"),
    "Sigmoid": layer(),
    "Slice": layer("-23300=2,3,-233 1=0", outputs=2),
    "Softmax": layer("0=0 1=1"),
    "Softplus": layer(),
    "Split": layer(outputs=2),
    "Swish": layer(),
    "TanH": layer(),
    "Tile": layer("0=0 1=2"),
    "UnaryOp": layer("0=7"),
    "Unfold": layer("1=3"),
}
# Take sums of products of integers, which no input of a network is.
NOT_ALONE = ["Dequantize", "Requantize"]
# More than there are kinds of layers.
MOST_KINDS = 200


def network(kind):
    parameters, inputs, _, outputs, then = LAYERS[kind]
    names = [f"in{number}" for number in range(len(inputs))]
    found = [f"out{number}" for number in range(outputs)]
    lines = [f"Input {name} 0 1 {name}" for name in names]
    tops = [f"middle{number}" for number in range(outputs)] if then else found
    lines.append(f"{kind} layer {len(names)} {outputs} {' '.join(names + tops)} {parameters}")
    if then:
        other, *more = then.split()
        lines.append(f"{other} then 1 1 {tops[0]} {found[0]} {' '.join(more)}")
    blobs = len(names) + len(tops) + (1 if then else 0)
    return f"7767517\n{len(lines)} {blobs}\n" + "\n".join(lines) + "\n", names, found


def outcome(kind, on_gpu):
    text, names, found = network(kind)
    net = ncnn.Net()
    net.opt.use_vulkan_compute = on_gpu
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.opt.use_bf16_storage = False
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/param", "w") as file:
            file.write(text)
        with open(folder + "/bin", "wb") as file:
            for size, tagged in LAYERS[kind][2]:
                file.write(bytes(4) if tagged else b"")
                file.write((random.random(size) + 0.1).astype(np.float32).tobytes())
        assert net.load_param(folder + "/param") == 0, kind
        assert net.load_model(folder + "/bin") == 0, kind
    extractor = net.create_extractor()
    for name, shape in zip(names, LAYERS[kind][1]):
        data = random.standard_normal(shape).astype(np.float32)
        extractor.input(name, ncnn.Mat(data).clone())
    results = []
    for name in found:
        status, out = extractor.extract(name)
        assert status == 0, kind
        results.append(np.array(out))
    return results


def has_vulkan(kind):
    made = ncnn.create_layer(kind)
    return made is not None and made.support_vulkan


assert ncnn.get_gpu_count() > 0, "no GPU"
# None is forgotten: these are all that there are among all kinds by number.
known = sum(has_vulkan(ncnn.layer_to_index(kind)) for kind in [*LAYERS, *NOT_ALONE])
assert known == len(LAYERS) + len(NOT_ALONE), known
assert known == sum(map(has_vulkan, range(MOST_KINDS))), known
for kind in LAYERS:
    for one, other in zip(outcome(kind, True), outcome(kind, False)):
        assert one.shape == other.shape, (kind, one.shape, other.shape)
        assert np.isfinite(other).all() and np.abs(other).max() > 0, kind
        assert np.allclose(one, other, rtol=1e-3, atol=1e-3), (kind, np.abs(one - other).max())
print(f"{len(LAYERS)} kinds of layers")
print("every number is right")

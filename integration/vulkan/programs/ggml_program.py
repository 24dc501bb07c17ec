# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs a small language model with llama.cpp, on the processor and with all of it on the GPU. The model is made here: its weights are
# random, but of each word it makes the one that is STEP further on in its list the most likely to follow. ggml takes no processor for a
# GPU: with lavapipe itself, the program needs the variable GGML_VK_VISIBLE_DEVICES=0. With --figures, says what a word takes.
import itertools
import json
import sys
import tempfile
import time

import gguf
import numpy as np
from cyllama.llama import llama_cpp as llama
from gguf import GGMLQuantizationType as Type
from gguf import TokenType

LAYERS, WIDTH, HEADS, GROUPS, HIDDEN = 2, 256, 4, 2, 512
HEAD = WIDTH // HEADS
WORDS = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
KINDS = [TokenType.UNKNOWN] + 2 * [TokenType.CONTROL] + 256 * [TokenType.BYTE]
STEP = 11
PROMPT = [1] + [3 + byte for byte in b"Bellhop carries what it is given"]
MORE = 24
# How far numbers may be apart, as a share of the largest. The processor rounds to 8 bits what it multiplies by weights of 4.
APART = 0.01


def write_model(path):
    random = np.random.default_rng(7)
    model = gguf.GGUFWriter(path, "llama")
    model.add_context_length(256)
    model.add_embedding_length(WIDTH)
    model.add_block_count(LAYERS)
    model.add_feed_forward_length(HIDDEN)
    model.add_head_count(HEADS)
    model.add_head_count_kv(GROUPS)
    model.add_rope_dimension_count(HEAD)
    model.add_layer_norm_rms_eps(1e-5)
    model.add_vocab_size(len(WORDS))
    model.add_tokenizer_model("llama")
    model.add_token_list(WORDS)
    model.add_token_scores([0.0] * len(WORDS))
    model.add_token_types(KINDS)

    def add(name, values, kind=Type.F16):
        model.add_tensor(f"{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)

    def weights(rows, columns):
        return random.standard_normal((rows, columns), np.float32) / np.float32(columns**0.5)

    def norm(name):
        add(name, np.ones(WIDTH, np.float32), Type.F32)

    words = weights(len(WORDS), WIDTH)
    add("token_embd", words * np.float32(WIDTH**0.5))
    for block in (f"blk.{layer}" for layer in range(LAYERS)):
        norm(f"{block}.attn_norm")
        add(f"{block}.attn_q", weights(WIDTH, WIDTH))
        add(f"{block}.attn_k", weights(GROUPS * HEAD, WIDTH))
        add(f"{block}.attn_v", weights(GROUPS * HEAD, WIDTH))
        add(f"{block}.attn_output", weights(WIDTH, WIDTH))
        norm(f"{block}.ffn_norm")
        add(f"{block}.ffn_gate", weights(HIDDEN, WIDTH), Type.Q4_0)
        add(f"{block}.ffn_up", weights(HIDDEN, WIDTH), Type.Q4_0)
        add(f"{block}.ffn_down", weights(WIDTH, HIDDEN), Type.Q4_0)
    norm("output_norm")
    add("output", np.roll(words, STEP, axis=0))
    model.write_header_to_file()
    model.write_kv_data_to_file()
    model.write_tensors_to_file()
    model.close()


class Model(llama.LlamaModel):
    # The package's context asks for this name.
    n_vocab = len(WORDS)


def generate(path, layers):
    """The words that follow the prompt, how likely each was among all, and the median time of one in nanoseconds. All but this many
    layers are the processor's."""
    of_model = llama.LlamaModelParams()
    of_model.n_gpu_layers = layers
    of_context = llama.LlamaContextParams()
    of_context.n_ctx, of_context.n_batch = 128, 64
    of_context.n_threads = of_context.n_threads_batch = 2
    of_context.offload_kqv = of_context.op_offload = layers > 0
    context = llama.LlamaContext(Model(path, of_model), of_context)
    chosen, likely, words, times = [], [], PROMPT, []
    for _ in range(MORE):
        start = time.perf_counter_ns()
        context.decode(llama.llama_batch_get_one(words, len(PROMPT) + len(chosen) - len(words)))
        likely.append(context.get_logits())
        times.append(time.perf_counter_ns() - start)
        words = [int(np.argmax(likely[-1]))]
        chosen += words
    context.close()
    return chosen, np.array(likely), sorted(times)[MORE // 2]


said = []
llama.set_log_callback(lambda _, text: said.append(text))
llama.ggml_backend_load_all()
devices = [device["name"] for device in llama.ggml_backend_dev_info()]
assert "Vulkan0" in devices, f"no GPU: {devices}"
with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
    write_model(file.name)
    layers = LAYERS + 1
    on_processor, expected, _ = generate(file.name, 0)
    assert f"offloaded 0/{layers} layers to GPU" in "".join(said), said
    on_gpu, likely, typical = generate(file.name, layers)
    assert f"offloaded {layers}/{layers} layers to GPU" in "".join(said), said
counted = itertools.islice(itertools.count(PROMPT[-1] + STEP, STEP), MORE)
assert on_gpu == on_processor == [word % len(WORDS) for word in counted], (on_gpu, on_processor)
assert np.abs(likely - expected).max() < APART * np.abs(expected).max()
print(json.dumps({"ggml": typical}) if "--figures" in sys.argv else "every number is right")

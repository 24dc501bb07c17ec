# SPDX-License-Identifier: MIT OR Apache-2.0
# Adds arrays with Kompute, sequence after sequence, and multiplies them with an operation of its own. With --figures, says what a sequence
# takes.
import json
import pathlib
import sys
import time

import kp
import numpy as np

COUNT = 10_000
RUNS = 300
kernel = pathlib.Path(__file__).parent.parent / "kernels" / "add.spv"
manager = kp.Manager()
print(manager.get_device_properties()["device_name"], file=sys.stderr)

numbers = np.arange(COUNT, dtype=np.uint32)
first, second, total = (manager.tensor_t(array) for array in (numbers, numbers * 3, numbers * 0))
tensors = [first, second, total]
groups = [(COUNT + 63) // 64, 1, 1]
algorithm = manager.algorithm(
    tensors, kernel.read_bytes(), groups, np.array([], np.uint32), np.array([COUNT], np.uint32)
)


def recorded(sequence):
    sequence.record(kp.OpTensorSyncDevice(tensors))
    sequence.record(kp.OpAlgoDispatch(algorithm))
    sequence.record(kp.OpTensorSyncLocal([total]))
    return sequence


if "--figures" in sys.argv:
    sequence, times = recorded(manager.sequence()), []
    for _ in range(RUNS):
        start = time.perf_counter_ns()
        sequence.eval()
        times.append(time.perf_counter_ns() - start)
    assert (total.data() == numbers * 4).all()
    print(json.dumps({"kompute": sorted(times)[RUNS // 2]}))
    sys.exit()

sequence = recorded(manager.sequence(0, 4))
sequence.eval()
assert (total.data() == numbers * 4).all()
stamps = sequence.get_timestamps()
assert stamps == sorted(stamps) and stamps[-1] > stamps[0], stamps

# The same commands are submitted again, and what they read is new.
for turn in range(50):
    first.data()[:] = numbers + turn
    sequence.eval_async()
    sequence.eval_await()
    assert (total.data() == numbers * 4 + turn).all(), turn

# Fewer are added than there are.
part = manager.sequence()
part.record(kp.OpTensorSyncDevice([total]))
total.data()[:] = 0
part.record(kp.OpAlgoDispatch(algorithm, np.array([COUNT // 2], np.uint32)))
part.record(kp.OpTensorSyncLocal([total]))
part.eval()
expected = np.where(numbers < COUNT // 2, numbers * 4 + 49, 0)
assert (total.data() == expected).all()

# A copy on the device.
left, right = manager.tensor_t(numbers), manager.tensor_t(numbers * 0)
sequence = manager.sequence()
sequence.eval(kp.OpTensorSyncDevice([left, right]))
sequence.eval(kp.OpTensorCopy([left, right]))
sequence.eval(kp.OpTensorSyncLocal([right]))
assert (right.data() == numbers).all()

print("every number is right")

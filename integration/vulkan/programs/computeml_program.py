# SPDX-License-Identifier: MIT OR Apache-2.0
# Multiplies matrices and trains a layer with computeml.
import computeml as cml
import numpy as np

context = cml.Context()
random = np.random.default_rng(1)
a, b = random.random((96, 64), np.float32), random.random((64, 32), np.float32)
product = cml.ops.relu(context.asarray(a) @ context.asarray(b)) * 2.0
assert np.allclose(product.numpy(), np.maximum(a @ b, 0) * 2, rtol=1e-4)
assert (context.asarray(a) + context.asarray(a)).numpy().tolist() == (a + a).tolist()
print("every number is right")

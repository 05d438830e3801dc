"""A training script as somebody might have written it: a small network, and its rates printed.

    python training_script.py STEPS [--report]

With `--report` it has the three calls of `labkit.report`, too.
"""

import sys
import time

import numpy as np

STEPS, REPORTS = int(sys.argv[1]), "--report" in sys.argv
BATCH, LINES = 64, 20

if REPORTS:
    from labkit import report

random = np.random.default_rng(0)
images = random.normal(size=(50 * BATCH, 784)).astype("float32")
labels = np.eye(10, dtype="float32")[random.integers(10, size=50 * BATCH)]
first = random.normal(scale=0.05, size=(784, 128)).astype("float32")
second = random.normal(scale=0.05, size=(128, 10)).astype("float32")
if REPORTS:
    report.ready()
began = time.perf_counter()
for step in range(1, STEPS + 1):
    batch = slice(step % 50 * BATCH, step % 50 * BATCH + BATCH)
    hidden = np.maximum(images[batch] @ first, 0)
    scores = np.exp(hidden @ second)
    errors = scores / scores.sum(axis=1, keepdims=True) - labels[batch]
    back = errors @ second.T * (hidden > 0)
    second -= 0.001 * hidden.T @ errors
    first -= 0.001 * images[batch].T @ back
    loss = np.square(errors).mean()
    if REPORTS:
        report.step(BATCH, loss=loss)
    if step % (STEPS // LINES) == 0:
        seconds, began = time.perf_counter() - began, time.perf_counter()
        print(f"images/sec: {BATCH * (STEPS // LINES) / seconds:.1f}", flush=True)

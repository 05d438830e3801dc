"""Training scripts of a user's own, small ones: nothing in them is of labkit but three calls."""

REPORTS = '''
import sys

import numpy as np

from labkit import report

random = np.random.default_rng(0)
weights = np.zeros(20)
report.ready()
for _ in range(int(sys.argv[1])):
    inputs = random.normal(size=(64, 20))
    errors = inputs @ weights - inputs @ np.arange(20)
    weights -= 0.05 * inputs.T @ errors / 64
    report.step(64, loss=(errors**2).mean(), rest=np.abs(errors).max())
report.evaluation(accuracy=75, error=np.abs(weights - np.arange(20)).max())
'''
"""It learns a linear function and says so."""

PRINTS = '''
import logging
import sys
import time

logging.basicConfig(level=logging.INFO)
for batch in range(6):
    time.sleep(0.05)
    logging.info("Epoch[0] Batch [%d]\\tSpeed: %.2f samples/sec\\taccuracy=0.5", batch, 1000)
'''
"""It prints what MXNet's Speedometer does, on standard error."""

COUNTS = '''
import time

for epoch in (1, 2):
    for batch in range(5):
        print("Train Epoch: {} [{}/500 ({:.0f}%)]\\tLoss: 0.5".format(
            epoch, 100 * batch, 100 * batch / 5))
        time.sleep(0.05)
'''
"""It prints what PyTorch's examples do, which say how far they are, and not how fast."""

KVSTORE = '''
import sys

import mxnet as mx  # a server's and the scheduler's process stays in here

store = mx.kv.create("dist_sync")
store.init("w", mx.nd.zeros(4))
store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.5))
pulled = mx.nd.zeros(4)
for step in range(int(sys.argv[1])):
    store.push("w", mx.nd.ones(4))
    store.pull("w", out=pulled)
    pulled.wait_to_read()
    if step % 10 == 0:
        print("step {} of worker {}, {} in all: {} images/sec".format(
            step, store.rank, store.num_workers, 100 + store.rank))
'''
"""It trains over MXNet's parameter servers, as their documents show it."""

TENSORFLOW = '''
import argparse
import json
import os

import tensorflow as tf

parser = argparse.ArgumentParser()
for name in ("ps_hosts", "worker_hosts", "job_name"):
    parser.add_argument("--" + name)
parser.add_argument("--task_index", type=int)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
config = json.loads(os.environ["TF_CONFIG"])
assert config["cluster"]["ps"] == args.ps_hosts.split(","), config
assert config["cluster"]["worker"] == args.worker_hosts.split(","), config
assert config["task"] == {"type": args.job_name, "index": args.task_index}, config
v1 = tf.compat.v1
v1.disable_eager_execution()
cluster = v1.train.ClusterSpec({"ps": args.ps_hosts.split(","),
                                "worker": args.worker_hosts.split(",")})
server = v1.train.Server(cluster, job_name=args.job_name, task_index=args.task_index)
if args.job_name == "ps":
    server.join()
with v1.device(v1.train.replica_device_setter(cluster=cluster)):
    count = v1.get_variable("count", [], initializer=v1.zeros_initializer())
    add = count.assign_add(1)
with v1.train.MonitoredTrainingSession(server.target, is_chief=args.task_index == 0) as session:
    for step in range(args.steps):
        session.run(add)
        if step % 10 == 9:
            print("steps/sec: 12.5")
'''
"""The older style of TensorFlow's scripts: hosts on the command line."""

TORCH = '''
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

BATCH, EVERY = 32, 10
dist.init_process_group("gloo")
torch.manual_seed(1)
layers = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
model = DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(2 + dist.get_rank())  # each worker has images of its own
began = time.perf_counter()
for step in range(int(sys.argv[1])):
    images = torch.rand(BATCH, 784)
    loss = cross_entropy(model(images), (10 * images[:, 0]).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (step + 1) % EVERY == 0:
        seconds, began = time.perf_counter() - began, time.perf_counter()
        print("images/sec: {:.1f}".format(EVERY * BATCH / seconds))
print("weights of worker {} of {}: {}".format(
    dist.get_rank(), dist.get_world_size(), [p.sum().item() for p in layers.parameters()]))
dist.destroy_process_group()
'''
"""It trains by PyTorch's DistributedDataParallel over gloo, as torchrun would start it."""

TORCH_REPORTS = (
    TORCH.replace("import torch\n", "import torch\n\nfrom labkit import report\n", 1)
    .replace("began = time", "report.ready()\nbegan = time", 1)
    .replace("    optimizer.step()\n", "    optimizer.step()\n"
             "    report.step(BATCH, loss=loss.item())\n", 1)
)  # fmt: skip
"""The same with the calls of `labkit.report`, which is all that it needs of labkit."""

ENDLESS = '''
import itertools
import os
import subprocess
import sys
import time

with open("pids-" + sys.argv[1], "w") as file:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    file.write("{} {}".format(os.getpid(), child.pid))
for step in itertools.count():
    time.sleep(0.02)
    print("step", step, "1000 samples/sec")
'''
"""It never ends, and has started something that does not either."""

ENDLESS_REPORTS = '''
import itertools
import time

from labkit import report

report.ready()
for _ in itertools.count():
    time.sleep(0.001)
    report.step(64, loss=0.5)
'''
"""It never ends, either."""

TOGETHER = '''
import os
import socket
import sys
import time

rank = int(os.environ["RANK"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    peer, _ = socket.create_server(address).accept()
else:
    while True:
        try:
            peer = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
while True:
    time.sleep(0.02)
    peer.sendall(b"gradient")
    if not peer.recv(8):
        sys.exit("the other worker has gone")
    print("1000 samples/sec")
'''
"""It never ends but by the other worker's end, as in a collective."""

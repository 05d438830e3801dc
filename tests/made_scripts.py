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

KVSTORE = '''
import sys

import numpy as np

np.bool = bool  # which numpy dropped, and MXNet 1.9 still uses

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
    for step in range(40):
        session.run(add)
        if step % 10 == 9:
            print("steps/sec: 12.5")
'''
"""The older style of TensorFlow's scripts: hosts on the command line."""

"""Train with TensorFlow: a graph, `replica_device_setter` and `MonitoredTrainingSession`.

This is the TensorFlow of 2018, which TensorFlow 2 still carries under ``compat.v1``: the variables
live on parameter servers, each worker builds the whole graph, reads the weights, computes its
gradients and has them applied on the servers without waiting for anybody. What `tf.layers` and
`contrib.rnn` did for the thesis is written out here, because neither exists any more.
"""

from __future__ import annotations

import signal
import time

from labkit.replicas import loop
from labkit.replicas.arguments import parse
from labkit.replicas.arrays import SEQUENCE_LENGTH

if __name__ == "__main__":
    ARGS = parse()

import tensorflow

tf = tensorflow.compat.v1

LSTM_LAYERS = 2
LSTM_UNITS = 200

INITIALIZERS = {
    "default": tf.glorot_uniform_initializer,
    "xavier": tf.glorot_uniform_initializer,
    "uniform": lambda: tf.random_uniform_initializer(-0.01, 0.01),
}


def dense(net, units: int):
    """Connect every input with every one of `units` outputs."""
    weights = tf.get_variable("weights", [net.shape[-1], units])
    bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
    return tf.nn.bias_add(tf.matmul(net, weights), bias)


def lenet5(images):
    """LeNet-5 as in the thesis: two convolutions and poolings, 500 units, 10 classes."""
    net = tf.reshape(images, [-1, 28, 28, 1])
    for layer, filters in enumerate((20, 50)):
        with tf.variable_scope(f"convolution{layer}"):
            kernel = tf.get_variable("kernel", [5, 5, net.shape[-1], filters])
            bias = tf.get_variable("bias", [filters], initializer=tf.zeros_initializer())
        net = tf.nn.conv2d(net, kernel, strides=1, padding="VALID")
        net = tf.tanh(tf.nn.bias_add(net, bias))
        net = tf.nn.max_pool2d(net, ksize=2, strides=2, padding="VALID")
    with tf.variable_scope("hidden"):
        net = tf.tanh(dense(tf.reshape(net, [-1, 4 * 4 * 50]), 500))
    with tf.variable_scope("classes"):
        return dense(net, loop.CLASSES)


def lstm(words):
    """Two LSTM layers over an embedding, unrolled over 30 words, from a zero state."""
    embedding = tf.get_variable("embedding", [loop.VOCABULARY, LSTM_UNITS])
    sequence = tf.unstack(tf.nn.embedding_lookup(embedding, words), axis=1)
    for layer in range(LSTM_LAYERS):
        with tf.variable_scope(f"lstm{layer}"):
            weights = tf.get_variable("weights", [2 * LSTM_UNITS, 4 * LSTM_UNITS])
            bias = tf.get_variable(
                "bias", [4 * LSTM_UNITS], initializer=tf.zeros_initializer()
            )
        cell = output = tf.zeros([tf.shape(words)[0], LSTM_UNITS])
        outputs = []
        for inputs in sequence:
            gates = tf.matmul(tf.concat([inputs, output], axis=1), weights)
            new, candidate, forget, show = tf.split(tf.nn.bias_add(gates, bias), 4, axis=1)
            # The 1 makes a fresh cell remember, as in BasicLSTMCell and in MXNet's LSTMCell.
            cell = cell * tf.sigmoid(forget + 1.0) + tf.sigmoid(new) * tf.tanh(candidate)
            output = tf.tanh(cell) * tf.sigmoid(show)
            outputs.append(output)
        sequence = outputs
    with tf.variable_scope("prediction"):
        return dense(tf.reshape(tf.stack(sequence, axis=1), [-1, LSTM_UNITS]), loop.VOCABULARY)


class Worker:
    """A graph and a session that train on this process's CPU, alone or with others."""

    def __init__(self, args) -> None:
        target, device = "", None
        self.workers = 1
        if args.strategy == "async-ps":
            self.workers = len(args.hosts["worker"])
            target = join(args).target
            device = tf.train.replica_device_setter(
                cluster=cluster(args), worker_device=f"/job:worker/task:{args.index}"
            )
        with tf.Graph().as_default(), tf.device(device):
            tf.set_random_seed(args.seed)
            self._build(args)
            if args.index > 0:
                self._wait_for_chief(target, config(args))
            self.session = tf.train.MonitoredTrainingSession(
                master=target, is_chief=args.index == 0, config=config(args)
            )

    def _build(self, args) -> None:
        shape, dtype = ([28, 28], tf.float32)
        label_shape = []
        if args.model == "lstm":
            shape, dtype = [SEQUENCE_LENGTH], tf.int32
            label_shape = shape
        self.inputs = tf.placeholder(dtype, [None, *shape])
        self.labels = tf.placeholder(tf.int32, [None, *label_shape])
        # Fed with every step, so that a warm-up can take the same path with rate 0.
        self.rate = tf.placeholder(tf.float32, [])
        self.learning_rate = args.learning_rate
        with tf.variable_scope("", initializer=INITIALIZERS[args.initializer]()):
            logits = {"lenet5": lenet5, "lstm": lstm}[args.model](self.inputs)
        truth = tf.reshape(self.labels, [-1])
        self.losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=truth, logits=logits)
        self.loss = tf.reduce_mean(self.losses)
        self.hits = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), truth)
        objective = self.loss
        if args.loss_over_time == "sum":
            objective *= SEQUENCE_LENGTH
        optimizer = tf.train.GradientDescentOptimizer(self.rate)
        gradients, variables = zip(*optimizer.compute_gradients(objective), strict=True)
        if args.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, args.clip_norm)
        self.update = optimizer.apply_gradients(zip(gradients, variables, strict=True))
        self.hit_share = tf.constant(0.0)
        if args.model == "lenet5":
            self.hit_share = tf.reduce_mean(tf.cast(self.hits, tf.float32))
        self.arrivals = tf.get_variable(
            "arrivals", [], tf.int32, initializer=tf.zeros_initializer(), trainable=False
        )
        self.arrive = self.arrivals.assign_add(1, read_value=False)

    @staticmethod
    def _wait_for_chief(target: str, settings) -> None:
        # MonitoredTrainingSession would sleep 30 s after its first look in vain.
        uninitialized = tf.report_uninitialized_variables()
        with tf.Session(target, config=settings) as session:
            while len(session.run(uninitialized)):
                time.sleep(0.05)

    def _step(self, inputs, labels, rate: float) -> tuple[float, float]:
        _, loss, hits = self.session.run(
            [self.update, self.loss, self.hit_share],
            {self.inputs: inputs, self.labels: labels, self.rate: rate},
        )
        return float(loss), float(hits)

    def train(self, inputs, labels) -> tuple[float, float]:
        return self._step(inputs, labels, self.learning_rate)

    def warm_up(self, inputs, labels) -> None:
        self._step(inputs, labels, 0.0)

    def evaluate(self, inputs, labels):
        return self.session.run(
            [self.losses, self.hits], {self.inputs: inputs, self.labels: labels}
        )

    def finish(self) -> None:
        """Nothing to do: a session's run returns when all is computed."""

    def barrier(self) -> None:
        self.session.run(self.arrive)
        while self.session.run(self.arrivals) < self.workers:
            time.sleep(0.01)

    def close(self) -> None:
        self.session.close()


def cluster(args):
    """Name the processes as TensorFlow does: ``ps`` for servers, ``worker`` for workers."""
    return tf.train.ClusterSpec({"ps": args.hosts["server"], "worker": args.hosts["worker"]})


def config(args):
    """Limit this process to its threads, and a worker's view to the servers and itself."""
    filters = []
    if args.strategy == "async-ps" and args.role == "worker":
        filters = ["/job:ps", f"/job:worker/task:{args.index}"]
    return tf.ConfigProto(
        intra_op_parallelism_threads=args.threads,
        inter_op_parallelism_threads=args.threads,
        device_filters=filters,
    )


def join(args):
    """Start this process's server: the one that others talk to."""
    return tf.train.Server(
        cluster(args),
        job_name={"server": "ps", "worker": "worker"}[args.role],
        task_index=args.index,
        config=config(args),
    )


def serve(args, events) -> None:
    """Be a parameter server until a SIGTERM says that the workers have finished."""
    # `Server.join()` would never return; one that left by itself would hang the last worker.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    server = join(args)
    events("ready")
    signal.sigwait({signal.SIGTERM})
    del server


def main(args) -> None:
    """Be one replica."""
    loop.main(args, {"tensorflow": tensorflow.__version__}, Worker, serve)


if __name__ == "__main__":
    main(ARGS)

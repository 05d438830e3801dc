"""Train with MXNet: symbols, modules and a key-value store, as the thesis did.

The CNN is a `Module`, the RNN a `BucketingModule`; both are fed and updated by hand, which is what
their `fit` does, so that a warm-up and a barrier can come before the clock. Distribution is the
key-value store: a scheduler introduces servers and workers to each other, every worker pushes its
gradients to the servers, and pulls the weights it goes on with. The servers apply a gradient at
once (``dist_async``), or the sum of all workers' when they have it (``dist_sync``). No ssh and no
launch.py is needed for that: a few environment variables say who is who.
"""

import os

from labkit.replicas import checksum, loop
from labkit.replicas.arguments import parse
from labkit.replicas.events import Ready
from labkit.replicas.pace import Pace

if __name__ == "__main__":
    ARGS = parse()

import numpy as np

if "bool" not in np.__dict__:
    np.bool = np.bool_  # numpy dropped the name in 1.24; MXNet 1.9 still uses it

import mxnet as mx

CODE = checksum(__file__)


def network(model) -> mx.sym.Symbol:
    """Return a network with its loss, over the variables ``data`` and ``softmax_label``."""
    scores = model.mxnet(mx, mx.sym.Variable("data"))
    labels = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    return mx.sym.SoftmaxOutput(scores, labels, name="softmax")


def negative_log(probabilities: mx.nd.NDArray) -> mx.nd.NDArray:
    """Return the loss; a probability too small for a float counts as 1e-30, not as infinite."""
    return -mx.nd.log(mx.nd.maximum(probabilities, 1e-30))


def initializer(name: str) -> mx.init.Initializer:
    """Return the initial weights' distribution; `Module.fit`'s own is Uniform(0.01)."""
    if name == "xavier":
        return mx.init.Xavier(rnd_type="uniform", factor_type="avg", magnitude=3)
    return mx.init.Uniform(0.01)


STORES = {"async-ps": "dist_async", "sync-ps": "dist_sync"}
"""The key-value store of each strategy that has one."""


class Worker(loop.Network):
    """A network that trains on this process's CPU, alone or with others."""

    def __init__(self, args, model, data) -> None:
        self.clip_norm = args.clip_norm
        self.metric, self.evaluated = model.METRIC, model.EVAL_BATCH
        self.shape, self.label_shape = data.train_inputs.shape[1:], data.train_labels.shape[1:]
        self.store, self.pace = None, Pace.of(args)
        if args.strategy in STORES:
            join(args)
            self.store = mx.kv.create(STORES[args.strategy])
        mx.random.seed(args.seed)
        np.random.seed(args.seed)
        symbol = network(model)
        if self.label_shape:
            self.module = mx.mod.BucketingModule(
                lambda length: (symbol, ("data",), ("softmax_label",)),
                default_bucket_key=self.label_shape[0],
                context=mx.cpu(),
            )
        else:
            self.module = mx.mod.Module(symbol, context=mx.cpu())
        self.module.bind(*self._shapes(args.batch_size))
        self.module.init_params(initializer(args.initializer))
        # SoftmaxOutput's gradient is a sum over all targets, hence over a text's time steps.
        self.targets = args.batch_size
        if args.loss_over_time == "mean":
            self.targets *= int(np.prod(self.label_shape))
        added = len(args.hosts["worker"]) if args.strategy == "sync-ps" else 1
        self.module.init_optimizer(
            self.store or "local",
            args.optimizer,  # MXNet calls them by the same names
            # The servers add up the workers' gradients: the step is to be their mean.
            {"learning_rate": args.learning_rate, "rescale_grad": 1 / (self.targets * added)},
        )
        self.variables = [array.size for array in self._arrays("param")]
        self.barrier()  # the servers have the optimiser before anybody pushes

    def _shapes(self, size):
        return (
            [mx.io.DataDesc("data", (size,) + self.shape)],
            [mx.io.DataDesc("softmax_label", (size,) + self.label_shape)],
        )

    def _batch(self, inputs, labels) -> mx.io.DataBatch:
        shapes = self._shapes(len(inputs))
        return mx.io.DataBatch(
            [mx.nd.array(inputs)],
            [mx.nd.array(labels)],
            bucket_key=self.label_shape[0] if self.label_shape else None,
            provide_data=shapes[0],
            provide_label=shapes[1],
        )

    def _arrays(self, kind):
        module = getattr(self.module, "_curr_module", self.module)
        return [arrays[0] for arrays in getattr(module._exec_group, f"{kind}_arrays")]

    def train(self, inputs, labels):
        batch = self._batch(inputs, labels)
        if self.pace:
            _wait_for(self._arrays("param"))
            self.pace.begin()
        self.module.forward_backward(batch)
        if self.clip_norm:
            # The servers divide by the number of targets: the bound is multiplied by it. In lock
            # step, too, it bounds each worker's own gradient, before their mean is taken.
            mx.gluon.utils.clip_global_norm(self._arrays("grad"), self.clip_norm * self.targets)
        if self.pace:
            _wait_for(self._arrays("grad"))
            self.pace.end()
        self.module.update()
        # Needs the forward pass only: the rest is computed while the next batch is prepared.
        probabilities = self.module.get_outputs()[0]
        truth = batch.label[0].reshape((-1,))
        loss = negative_log(mx.nd.pick(probabilities, truth)).mean()
        hits = 0.0
        if self.metric == "accuracy":
            hits = (mx.nd.argmax(probabilities, axis=1) == truth).mean().asscalar()
        return float(loss.asscalar()), float(hits)

    def warm_up(self, inputs, labels) -> None:
        self.module.forward_backward(self._batch(inputs, labels))
        for gradient in self._arrays("grad"):
            gradient[:] = 0
        self.module.update()

    def snapshot(self) -> None:
        # A new one each time: MXNet's fused kernels for inference keep the weights they met first.
        trained = getattr(self.module, "_curr_module", self.module)
        self.evaluator = mx.mod.Module(trained.symbol, context=mx.cpu())
        self.evaluator.bind(*self._shapes(self.evaluated), for_training=False)
        self.evaluator.set_params(*self.module.get_params())

    def evaluate(self, inputs, labels):
        batch = self._batch(inputs, labels)
        self.evaluator.forward(batch, is_train=False)
        probabilities = self.evaluator.get_outputs()[0]
        truth = batch.label[0].reshape((-1,))
        # The sum is no number if a score is none: inference gives zero to all other classes then.
        losses = negative_log(mx.nd.pick(probabilities, truth)) + 0 * probabilities.sum(axis=1)
        return losses.asnumpy(), (mx.nd.argmax(probabilities, axis=1) == truth).asnumpy()

    def finish(self) -> None:
        mx.nd.waitall()

    def barrier(self) -> None:
        if self.store:
            self.store._barrier()

    def close(self) -> None:
        """Nothing to do: the store says good-bye when the process ends."""


def _wait_for(arrays) -> None:
    """Return when these have been computed, or have arrived: MXNet's calls do not wait."""
    for array in arrays:
        array.wait_to_read()


def join(args) -> None:
    """Tell ps-lite, MXNet's parameter server, who this process is and where to meet."""
    host, _, port = args.hosts["scheduler"][0].rpartition(":")
    if host.startswith("["):
        raise ValueError(f"MXNet knows IPv4 alone, and its scheduler has no other address: {host}")
    os.environ.update(
        DMLC_ROLE=args.role,
        DMLC_PS_ROOT_URI=host,
        DMLC_PS_ROOT_PORT=port,
        DMLC_NUM_SERVER=str(len(args.hosts["server"])),
        DMLC_NUM_WORKER=str(len(args.hosts["worker"])),
    )
    if args.role != "scheduler":
        own = args.hosts[args.role][args.index]
        os.environ["DMLC_NODE_HOST"] = own.rpartition(":")[0]


def serve(args, writer) -> None:
    """Be the scheduler or a server until all workers have finished."""
    join(args)
    writer.write(Ready)
    try:
        # What `import mxnet` does when it finds these variables set before.
        mx.kvstore.kvstore_server._init_kvstore_server_module()
    except SystemExit as left:
        if left.code:
            raise RuntimeError(f"MXNet's {args.role} left with code {left.code}") from left


def main(args) -> None:
    """Be one replica."""
    loop.main(args, {"mxnet": mx.__version__}, CODE, Worker, serve)


if __name__ == "__main__":
    main(ARGS)

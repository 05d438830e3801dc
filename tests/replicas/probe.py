"""Look into one framework's networks, in a process that imports it once.

    python tests/replicas/probe.py FRAMEWORK HOSTS DIRECTORY

HOSTS are of two workers and their servers, for each strategy that has these, as JSON.
What is found goes to DIRECTORY: ``<framework>.json``, and the gradients as ``<framework>.npz``.
"""

import json
import multiprocessing
import sys
import types
from importlib import import_module
from pathlib import Path

import numpy as np

from labkit.replicas import arguments, events, models

RATE = 0.01
OTHER = {"tensorflow": "sum", "mxnet": "mean"}
"""How the lstm's gradient is taken over time if the framework's own way is not wanted."""

CLIP = 0.05
"""A bound that the gradients of both models are beyond."""

NETWORKS = {name: models.load(models.path_of(name)) for name in ("lenet5", "lstm")}
WORDS = NETWORKS["lstm"].TIME_STEPS = 6
"""What lasts is to unroll the lstm: a shorter one shows the same."""

BASE = ["--steps=2", "--batch-size=5", "--initializer=xavier", f"--learning-rate={RATE}"]

random = np.random.default_rng(1)
BATCHES = {
    "lenet5": (random.random((5, 28, 28), np.float32), np.arange(5, dtype=np.int32)),
    "lstm": tuple(random.integers(0, 10_000, (5, WORDS)).astype(np.int32) for _ in range(2)),
}
ONE_WORD = np.full((5, WORDS), 7, np.int32), BATCHES["lstm"][1]
"""Each time step's gradient for the embedding has to go to the same row."""


def make(*options):
    """Return a worker's network, with BASE where the options do not say otherwise."""
    args = arguments.parse([*BASE, *options])
    inputs, labels = BATCHES[args.model]
    if args.model == "lenet5":
        inputs = inputs.astype(np.uint8)
    data = types.SimpleNamespace(train_inputs=inputs, train_labels=labels)
    return trainer.Worker(args, NETWORKS[args.model], data)


def weights(worker):
    """Return the weights that a worker goes on with."""
    if framework == "mxnet":
        return [array.asnumpy() for array in worker.module.get_params()[0].values()]
    return worker.session.run(worker.session.graph.get_collection("trainable_variables"))


def apart(some, others):
    """Return the distance of weights from others."""
    squares = [((one - other) ** 2).sum() for one, other in zip(some, others, strict=True)]
    return float(np.sqrt(sum(squares)))


def step(worker, batch, rate=RATE):
    """Take a step; return its loss, and the norm of the gradient as the weights show it."""
    before = weights(worker)
    loss, _ = worker.train(*batch)
    return {"loss": loss, "gradient": apart(weights(worker), before) / rate}


# --- equal weights in both frameworks -------------------------------------------------------

GATES = [0, 2, 1, 3]
"""Where MXNet's cell (in, forget, candidate, out) has the gates, in the other's order."""

SHAPES = {
    "lenet5": [
        *[(20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,)],
        *[(500, 800), (500,), (10, 500), (10,)],
    ],
    "lstm": [
        (10_000, 200),
        *[(800, 200), (800,), (800, 200), (800,)] * 2,
        *[(10_000, 200), (10_000,)],
    ],
}
"""Of MXNet's arrays."""


def as_tensorflow(model, arrays):
    """Lay out MXNet's arrays, weights or gradients, as TensorFlow's."""
    arrays = iter(arrays)
    if model == "lenet5":
        for _ in range(2):
            yield next(arrays).transpose(2, 3, 1, 0)
            yield next(arrays)
        yield next(arrays).reshape(500, 50, 4, 4).transpose(2, 3, 1, 0).reshape(800, 500)
        yield next(arrays)
    else:
        yield next(arrays)
        for _ in range(2):
            from_input, bias, from_state, _ = (next(arrays) for _ in range(4))
            both = np.concatenate([from_input, from_state], axis=1)
            yield both.reshape(4, 200, 400)[GATES].reshape(800, 400).T
            yield bias.reshape(4, 200)[GATES].ravel()
    yield next(arrays).T
    yield next(arrays)


def put(model, worker, arrays):
    """Have a worker go on with MXNet's arrays, or with the same network in TensorFlow's layout."""
    if framework == "tensorflow":
        arrays = as_tensorflow(model, arrays)
    elif model == "lstm":
        arrays = [np.copy(array) for array in arrays]
        for bias in (arrays[2], arrays[6]):
            bias[200:400] += 1  # what our other cell adds to the forget gate by itself
    load(worker, arrays)


def load(worker, arrays):
    """Have a worker that trains alone go on with other weights."""
    if framework == "tensorflow":
        variables = worker.session.graph.get_collection("trainable_variables")
        with worker.session.graph.as_default():
            for variable, array in zip(variables, arrays, strict=True):
                variable.load(array, worker.session)
        return
    names = worker.module.get_params()[0]
    given = {n: trainer.mx.nd.array(a) for n, a in zip(names, arrays, strict=True)}
    worker.module.set_params(given, {})


def drawn(model):
    """Return weights, as MXNet's arrays."""
    random = np.random.default_rng(2)
    arrays = [random.uniform(-0.1, 0.1, shape).astype(np.float32) for shape in SHAPES[model]]
    if model == "lstm":
        arrays[4][:] = arrays[8][:] = 0  # a second bias, beside the one that both have
    return arrays


def gradients(model, worker):
    """Take a step from weights that are the same in both frameworks.

    Returns
    -------
    list of array, dict
        The gradients, laid out as TensorFlow's, and how far the step went and the loss fell.
    """
    put(model, worker, drawn(model))
    before = weights(worker)
    loss, _ = worker.train(*BATCHES[model])
    after = weights(worker)
    found = [(old - new) / RATE for old, new in zip(before, after, strict=True)]
    way = {"moved": apart(after, before), "drop": loss - worker.train(*BATCHES[model])[0]}
    return (found if framework == "tensorflow" else list(as_tensorflow(model, found))), way


# --- one process ----------------------------------------------------------------------------


def look_at_networks(directory):
    """Return what one process shows; save the gradients from equal weights."""
    found, workers, first = {}, {}, {}
    for model, batch in BATCHES.items():
        worker = workers[model] = make(f"--model={model}")
        first[model] = weights(worker)
        worker.warm_up(*batch)
        worker.finish()
        found[model] = {
            "shapes": [array.shape for array in first[model]],
            "dtypes": sorted({str(array.dtype) for array in first[model]}),
            "warm-up": apart(weights(worker), first[model]),
            **judged(worker, model),
        }
    if framework == "tensorflow":
        found["reads"] = reads(workers["lstm"])
    faster = make(f"--learning-rate={10 * RATE}")
    other = make("--model=lstm", f"--loss-over-time={OTHER[framework]}")
    bound = {
        model: make(f"--model={model}", "--seed=2", f"--clip-norm={CLIP}") for model in BATCHES
    }
    uniform, default = (make(f"--initializer={name}") for name in ("uniform", "default"))
    found["seeds"] = [apart(weights(w), first["lenet5"]) for w in (faster, bound["lenet5"])]
    found["largest"] = {
        name: max(float(abs(array).max()) for array in arrays)
        for name, arrays in (("xavier", first["lenet5"]), ("uniform", weights(uniform)),
                             ("default", weights(default)))
    }  # fmt: skip
    found["ten times"] = step(faster, BATCHES["lenet5"], 10 * RATE)
    found["other"] = step(other, BATCHES["lstm"])
    found["adagrad"] = adapted()
    found["variables"] = {model: worker.variables for model, worker in workers.items()}
    found["clipped"] = {model: step(bound[model], batch) for model, batch in BATCHES.items()}
    put("lstm", bound["lstm"], drawn("lstm"))  # the embedding has more weight than at first
    found["clipped"]["one word"] = step(bound["lstm"], ONE_WORD)
    if OTHER[framework] == "mean":
        workers["lstm"] = other
    saved, found["small step"] = {}, {}
    for model, worker in workers.items():
        arrays, found["small step"][model] = gradients(model, worker)
        saved |= {f"{model}-{number}": array for number, array in enumerate(arrays)}
    spoilt = drawn("lenet5")
    spoilt[-1][7] = np.nan  # one score of each image, for a class that none is of
    put("lenet5", workers["lenet5"], spoilt)
    batch = [np.resize(array, (250, *array.shape[1:])) for array in BATCHES["lenet5"]]
    workers["lenet5"].snapshot()
    losses, _ = workers["lenet5"].evaluate(*batch)
    loss, _ = workers["lenet5"].train(*BATCHES["lenet5"])
    found["no number"] = {"training": loss, "evaluation": float(np.mean(losses))}
    np.savez(directory / f"{framework}.npz", **saved)
    return found


def reads(worker):
    """Return how often the graph reads the variable that it reads most."""
    operations = worker.session.graph.get_operations()
    names = [op.inputs[0].name for op in operations if op.type == "ReadVariableOp"]
    return max(map(names.count, names))


def adapted():
    """Take two steps with AdaGrad from weights that are the same in both frameworks.

    Returns
    -------
    list of float
        How far the second leads from where the equation says, as a share of each array.
    """
    plain, adaptive = make(), make("--optimizer=adagrad")
    for worker in (plain, adaptive):
        put("lenet5", worker, drawn("lenet5"))
    weight = weights(adaptive)
    squares = [0] * len(weight)
    for _ in range(2):
        # The gradient at the weights where AdaGrad is, by a step of plain SGD from there.
        load(plain, weight)
        plain.train(*BATCHES["lenet5"])
        gradient = [(w - a) / RATE for w, a in zip(weight, weights(plain), strict=True)]
        squares = [s + g**2 for s, g in zip(squares, gradient, strict=True)]
        adaptive.train(*BATCHES["lenet5"])
        arrays = zip(weight, gradient, squares, strict=True)
        due = [w - RATE * g / np.sqrt(s + 1e-7) for w, g, s in arrays]
        weight = weights(adaptive)
    return [apart([w], [d]) / apart([w], [0 * w]) for w, d in zip(weight, due, strict=True)]


def judged(worker, model):
    """Return what evaluation finds before a step, after it, and after it from a new snapshot."""
    size = NETWORKS[model].EVAL_BATCH
    batch = [np.resize(array, (size, *array.shape[1:])) for array in BATCHES[model]]
    worker.snapshot()
    found = [worker.evaluate(*batch)]
    taken = step(worker, BATCHES[model])
    found.append(worker.evaluate(*batch))
    worker.snapshot()
    found.append(worker.evaluate(*batch))
    return {
        "judged": [float(np.mean(losses)) for losses, _ in found],
        "targets": [np.size(array) for array in found[0]],
        "step": taken,
    }


# --- several processes ----------------------------------------------------------------------


def of_two_workers(strategy, work):
    """Start two workers with their servers; return what each comes to know, in their order.

    Parameters
    ----------
    strategy : str
    work : callable
        Gets a worker's index, its command line, and a function that waits for the other.
    """
    fork = multiprocessing.get_context("fork")
    turn, said = fork.Barrier(2, timeout=100), fork.Queue()
    hosts = HOSTS[strategy]
    options = [f"--strategy={strategy}", f"--hosts={json.dumps(hosts)}"]

    def serve(role, index):
        args = arguments.parse([*BASE, *options, f"--role={role}", f"--index={index}"])
        trainer.serve(args, events.Writer(role, index))

    def be_worker(index):
        # Other seeds: weights that are alike have come from the servers.
        said.put((index, work(index, [*options, f"--index={index}", f"--seed={1 + index}"],
                              turn.wait)))  # fmt: skip
        turn.wait()

    started = [
        fork.Process(target=be_worker if role == "worker" else serve, daemon=True,
                     args=(index,) if role == "worker" else (role, index))
        for role, addresses in hosts.items() for index in range(len(addresses))
    ]  # fmt: skip
    for process in started:
        process.start()
    found = dict(said.get(timeout=100) for _ in range(2))
    for process in started:
        process.kill()
    for process in started:
        process.join()  # or whoever starts next may find its port taken
    return [found[index] for index in range(2)]


def look_at_sharing(optimizer):
    """Have one worker take a step, and then another; return what both know after the first.

    Returns
    -------
    dict, list of array, list of array
        And the weights, before the first step and after both.
    """

    def work(index, options, wait):
        worker = make(*options, f"--optimizer={optimizer}")
        worker.barrier()
        worker.warm_up(*BATCHES["lenet5"])  # fetches the weights, and leaves them as they are
        known = [weights(worker)]
        wait()
        if index == 0:
            loss, _ = worker.train(*BATCHES["lenet5"])
            worker.finish()
        wait()
        worker.warm_up(*BATCHES["lenet5"])
        known.append(weights(worker))
        wait()
        if index == 1:
            loss, _ = worker.train(*BATCHES["lenet5"])
            worker.finish()
            known.append(weights(worker))
        return loss, known

    (loss, (first, second)), (later, (others_first, others_second, last)) = of_two_workers(
        "async-ps", work
    )
    found = {
        "first apart": apart(first, others_first),
        "moved": apart(second, first),
        "second apart": apart(second, others_second),
        "drop": loss - later,
    }
    return found, first, last


def beside_one_that_takes_both(optimizer, first, last):
    """Return how far two workers' two steps led from where one worker's do, as a share."""
    one = make(f"--optimizer={optimizer}")
    load(one, first)
    for _ in range(2):
        one.train(*BATCHES["lenet5"])
    return apart(weights(one), last) / apart(first, last)


# --- in lock step ---------------------------------------------------------------------------

ROUNDS = 3

SHARED = tuple(random.integers(0, 10_000, (10, WORDS)).astype(np.int32) for _ in range(2))
"""Sequences and their labels: of two workers half each, or of one."""

FAST = ["--model=lstm", "--loss-over-time=mean", "--learning-rate=10"]
"""So that the loss falls visibly in some rounds."""


def take_rounds_in_lock_step():
    """Return of two workers the losses, and the weights before and after."""

    def work(index, options, wait):
        worker = make(*FAST, *options)
        worker.barrier()
        worker.warm_up(*BATCHES["lstm"])
        before = weights(worker)
        half = [array[5 * index :][:5] for array in SHARED]
        losses = [worker.train(*half)[0] for _ in range(ROUNDS)]
        worker.finish()
        return losses, before, weights(worker)

    return of_two_workers("sync-ps", work)


def beside_one_worker(rounds):
    """Compare rounds in lock step with those of one worker, who takes all samples at once."""
    (losses, before, after), (others_losses, others_before, others_after) = rounds
    one = make(*FAST, "--batch-size=10")
    load(one, before)
    own_losses = [one.train(*SHARED)[0] for _ in range(ROUNDS)]
    arrays = zip(weights(one), before, after, strict=True)
    return {
        "workers apart": [apart(before, others_before), apart(after, others_after)],
        # Of each array: how far from the one worker's, as a share of the way that it has gone.
        "off": [apart([own], [new]) / apart([own], [old]) for own, old, new in arrays],
        "losses": np.mean([losses, others_losses], axis=0).tolist(),
        "own losses": own_losses,
    }


if __name__ == "__main__":
    framework, HOSTS, directory = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])
    arguments.parse(BASE)  # sets the threads, before the import
    trainer = import_module(f"labkit.replicas.train_{framework}")
    # First those that are forked: a framework that has computed does not survive that.
    shared = {name: look_at_sharing(name) for name in arguments.OPTIMIZERS}
    found = {"sharing": shared["sgd"][0]}
    rounds = take_rounds_in_lock_step()
    found["lock step"] = beside_one_worker(rounds)
    found["two steps"] = {
        name: beside_one_that_takes_both(name, first, last)
        for name, (_, first, last) in shared.items()
    }
    found |= look_at_networks(directory)
    (directory / f"{framework}.json").write_text(json.dumps(found))

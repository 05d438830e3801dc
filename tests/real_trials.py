"""Small trials that are really run, and which of them were."""

from labkit.replicas.events import Start

SMALL = {
    "framework": "mxnet",
    "model": "lenet5",
    "strategy": "single",
    "initializer": "xavier",
    "batch_size": 32,
    "learning_rate": 0.05,
    "steps": 5,
    "eval_samples": 250,
}


class Starts(list):
    """Notes which trials are really run."""

    def __call__(self, event):
        if isinstance(event, Start) and event.role == "worker":
            self.append(event.trial)

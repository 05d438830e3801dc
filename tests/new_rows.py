"""A model, a strategy and a framework that are added by a row and a file each."""

from labkit.trials import Trial
from labkit.trials.frameworks import FRAMEWORKS, Framework
from labkit.trials.models import MODELS, Model
from labkit.trials.strategies import STRATEGIES, Strategy

MODEL = """
DATASETS = ("mnist",)
METRIC = "accuracy"
EVAL_BATCH = 100

def guess(framework, images):
    return framework.zeros((len(images), 10))
"""

TRAINER = '''
import numpy as np

from labkit.replicas import checksum, loop
from labkit.replicas.arguments import parse

CODE = checksum(__file__)


class Worker(loop.Network):
    """A network that has one guess for all, and learns nothing."""

    def __init__(self, args, model, data):
        self.model = model

    def train(self, inputs, labels):
        loss, hits = self.evaluate(inputs, labels)
        return float(loss.mean()), float(hits.mean())

    def warm_up(self, inputs, labels):
        pass

    def evaluate(self, inputs, labels):
        scores = self.model.guess(np, inputs)
        losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(labels)), labels]
        return losses, scores.argmax(axis=1) == labels

    def finish(self):
        pass

    def barrier(self):
        pass

    def close(self):
        pass


def main(args):
    loop.main(args, {"numpy": np.__version__}, CODE, Worker, serve=None)


if __name__ == "__main__":
    main(parse())
'''


def add(directory, monkeypatch):
    """Write the files, add the rows; return a trial that needs all of them."""
    (directory / "constant.py").write_text(MODEL)
    (directory / "train_guess.py").write_text(TRAINER)
    model = Model("constant", "one answer for all", directory / "constant.py")
    strategy = Strategy("apart", "workers that never meet", roles=("worker",))
    framework = Framework(
        "guess", "Guess", modules=("numpy",), strategies=("apart",), scheduler=False,
        servers_per_worker=False, servers_end_themselves=True,
        trainer=directory / "train_guess.py", recipe=FRAMEWORKS["mxnet"].recipe,
    )  # fmt: skip
    for table, row in ((MODELS, model), (STRATEGIES, strategy), (FRAMEWORKS, framework)):
        monkeypatch.setitem(table, row.name, row)
    return Trial(
        framework="guess", model="constant", strategy="apart", workers=2, batch_size=100,
        learning_rate=0.1, steps=3, eval_samples=1000,
    )  # fmt: skip

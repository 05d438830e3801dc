"""Lines of the trainers, shown as they are."""

import ast
import textwrap

import pytest

from labkit.errors import LabkitError
from labkit.thesis import trainers
from labkit.trials.frameworks import FRAMEWORKS

pytestmark = pytest.mark.unit  # so that no framework can be imported


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_function_is_shown_whole(framework):
    found = trainers.lines(framework, "Worker.train")
    source = FRAMEWORKS[framework].trainer.read_text()
    assert textwrap.indent(found.text, "    ") in source
    (function,) = ast.parse(found.text).body
    assert function.name == "train"
    assert found.path == f"labkit/replicas/train_{framework}.py"


def test_statements_are_shown_whole_in_their_order_with_gaps():
    found = trainers.lines("tensorflow", "Worker._step", "return float", "session.run")
    first, last = found.text.split(f"\n{trainers.GAP}\n")
    assert isinstance(ast.parse(first).body[0].value, ast.Call)  # over several lines
    assert first.startswith("updates, loss, hits = self.session.run(")
    assert last == "return float(loss), float(hits)"
    both = trainers.lines("mxnet", "Worker.train", "batch = self._batch", "self.pace:")
    assert trainers.GAP not in both.text  # one follows the other


def test_it_says_where_the_lines_are_from():
    found = trainers.lines("mxnet", "Worker.train", "module.update")
    assert repr(found) == (
        "# labkit/replicas/train_mxnet.py, Worker.train\nself.module.update()"
    )
    page = trainers.lines("mxnet", "serve")._repr_html_()
    assert page.startswith("<pre><code># labkit/") and "-&gt; None" in page


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("mxnt", "serve"), "framework: 'mxnt'; did you mean 'mxnet'?"),
        (("mxnet", "Worker.trian"), "no function 'Worker.trian'; did you mean 'Worker.train'?"),
        (("mxnet", "Worker.train", "fit("), "no statement of train has 'fit(' in it"),
        (("mxnet", "Worker.train", "def train"), "no statement of train has 'def train'"),
    ],
)
def test_what_is_not_there_is_refused(asked, said):
    with pytest.raises(LabkitError, match=said.replace("(", r"\(").replace("?", r"\?")):
        trainers.lines(*asked)

"""One page to send to a colleague: what it says, and that it needs nothing else."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from tidy_tables import lose, trials

from labkit.book.brief import brief
from labkit.errors import LabkitError
from labkit.figures import AmbiguousFigure, FigureError
from labkit.prediction import predict

pytestmark = pytest.mark.unit


class Page(HTMLParser):
    """The cells of tables, and what is linked, of a page."""

    def __init__(self, content):
        super().__init__()
        self.rows, self.links, self.ids, self.text, self._cell = [], [], set(), "", False
        self.feed(content)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.links += [v for k, v in attributes.items() if k in ("href", "src")]
        self.ids.add(attributes.get("id"))
        if tag == "tr":
            self.rows.append([])
        self._cell = tag in ("td", "th") or self._cell and tag == "a"
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data):
        self.text += data
        if self._cell:
            self.rows[-1][-1] += data.replace("\n", " ")


def table(workers=(1, 2, 4), **values):
    found = trials(workers=workers, **values)
    step = 1000 * found["workers"] / found["batches_per_second"]
    return found.assign(
        cpu_ms_per_step=0.97 * step, server_cpu_ms_per_update=1.0, host="here", launcher="local",
        started="2026-01-02T03:04:05+0000", cpu_model="a processor", revision="abc", versions="",
    )  # fmt: skip


def test_it_says_what_was_measured_and_what_to_expect():
    found = table(frameworks=("mxnet",))
    page = Page(brief(found))
    means = np.exp(np.log(found["batches_per_second"]).groupby(found["workers"]).mean())
    measured = [row for row in page.rows if row[-1].endswith("runs")]
    assert [int(row[0]) for row in measured] == [1, 2, 4]
    assert [float(row[1]) for row in measured] == pytest.approx(means.tolist(), rel=5e-3)
    speedups = (means / means[1]).tolist()
    assert [float(row[3]) for row in measured] == pytest.approx(speedups, rel=5e-3)
    due = predict(means.to_dict(), workers=[5, 8, 16, 32]).forecasts
    ahead = [row for row in page.rows if "predicted" in row[-1]]
    assert [int(row[0]) for row in ahead] == [5, 8, 16, 32]
    assert [float(row[1]) for row in ahead] == pytest.approx([f.throughput for f in due], rel=5e-3)
    text = " ".join(page.text.split())
    assert "Do more machines help? MXNet, CNN, batch 512" in text
    assert re.search(r"Going from 4 to 5 workers is expected to raise the thr.* by \d+ %", text)
    assert "97 % of a step is the worker's own work: nothing holds it up yet." in text
    assert "here" in text and "9, of which 9 gave a rate" in text and "loopback" in text


def test_it_needs_no_other_file_and_its_rows_lead_to_runs():
    found = table(batch_sizes=(128, 512))
    page = Page(brief(found))
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in page.links)
    inside = {link[1:] for link in page.links if link.startswith("#")}
    assert inside and inside <= page.ids
    assert all(name in page.text for name in found["trial"])


def test_each_configuration_has_an_answer_of_its_own():
    page = Page(brief(table(batch_sizes=(128, 512))))
    assert page.text.count("Going from 4 to 5 workers") == 4
    for name in ("TensorFlow, batch 128", "MXNet, batch 512"):
        assert name in page.text


@pytest.mark.parametrize(("framework", "apart"), [("mxnet", 0), ("tensorflow", 1)])
def test_a_price_says_what_a_million_samples_cost(framework, apart):
    """A server that is not beside a worker has a machine of its own."""
    found = table(frameworks=(framework,), repeats=1)
    page = Page(brief(found, price=0.5))
    for row, (_, trial) in zip(page.rows[1:4], found.iterrows(), strict=True):
        hours = 1e6 / (trial["batches_per_second"] * trial["batch_size"]) / 3600
        machines = trial["workers"] + apart
        assert float(row[4]) == pytest.approx(hours * machines * 0.5, rel=5e-3)
    rate, cost = (float(page.rows[5][i]) for i in (1, 4))
    hours, machines = 1e6 / (rate * trial["batch_size"]) / 3600, int(page.rows[5][0]) + apart
    assert cost == pytest.approx(hours * machines * 0.5, rel=1e-2)


def test_a_script_without_servers_has_no_other_machines():
    found = table(frameworks=("mxnet",), repeats=1).assign(
        framework="torch", model="train.py", strategy="script", servers=0
    )
    rows = Page(brief(found, price=0.5)).rows
    assert [float(row[4]) for row in rows[1:4]] == pytest.approx(
        [float(row[4]) for row in Page(brief(table(frameworks=("mxnet",), repeats=1),
                                             price=0.5)).rows[1:4]])  # fmt: skip


def test_samples_count_where_nobody_says_how_many_are_in_a_batch():
    """As of a script with the three calls, alone or beside others."""
    found = table(frameworks=("mxnet",), repeats=1)
    expected = Page(brief(found, price=0.5)).rows
    assert Page(brief(found.assign(batch_size=None), price=0.5)).rows == expected
    assert Page(brief(found.assign(batch_size=np.nan), price=0.5)).rows == expected


def test_what_a_script_does_not_say_is_not_in_the_title():
    found = table(frameworks=("mxnet",)).assign(
        batch_size=None, optimizer=None, strategy="script", model="train.py"
    )
    text = Page(brief(found)).text
    assert "Do more machines help? MXNet, train, script\n" in text and "None" not in text


@pytest.mark.parametrize(("cpu", "said"), [
    (None, "servers and network are as fast as they are"),
    (0.16, "the network is as fast as it is"),
])  # fmt: skip
def test_what_is_as_fast_as_ever_on_slow_nodes(cpu, said):
    found = table(frameworks=("mxnet",)).assign(slowdown=10.0, cpu=cpu)
    text = Page(brief(found)).text
    assert f"slower than a core of the machine; {said}." in text
    assert ("0.16 of a core each" in text) == bool(cpu)


def test_thousands_are_written_out():
    found = table(frameworks=("mxnet",), repeats=1)
    rates = found["batches_per_second"] = found["batches_per_second"] * 1000
    page = Page(brief(found))
    assert [row[1] for row in page.rows[1:4]] == [f"{rate:,.0f}" for rate in rates]
    assert "e+" not in page.text


def test_what_shared_cores_is_no_basis_for_a_prediction():
    page = Page(brief(table(frameworks=("mxnet",), cores=1)))
    assert "Not known: that takes rates with at least two numbers of workers" in page.text
    assert not any("predicted" in row[-1] for row in page.rows)
    assert sum("oversubscribed: workers share cores" in row[-1] for row in page.rows) == 2


def test_what_has_no_rate_says_why():
    found = lose(table(frameworks=("mxnet",)), workers=2, seed=1)
    rows = Page(brief(lose(found, workers=4, overloaded=True, status="finished"))).rows
    assert "1 of 3 runs failed" in rows[2][-1]
    assert rows[3][1] == "–" and "machine too busy" in rows[3][-1]


def test_names_of_files_are_no_markup():
    found = table(frameworks=("mxnet",)).assign(model="<b>mine</b>.py")
    assert "<b>mine</b>" not in brief(found, title="<b>mine</b>")


@pytest.mark.parametrize(
    ("change", "values", "error"),
    [
        (lambda t: t, {"price": 0.0}, LabkitError),
        (lambda t: t.iloc[:0], {}, FigureError),
        (lambda t: t.assign(eval_samples=range(len(t))), {}, AmbiguousFigure),
    ],
)
def test_what_makes_no_page_is_refused(change, values, error):
    with pytest.raises(error):
        brief(change(table()), **values)

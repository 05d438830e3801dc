"""``labkit figure``: the same bytes as a notebook keeps, and general figures."""

from types import SimpleNamespace

import pandas as pd
import pytest
from tidy_tables import steps, trials

from labkit import settings, show
from labkit.book.plan import home
from labkit.cli import figure as figure_module
from labkit.runs.tables import modernise
from labkit.settings import REFERENCE
from labkit.thesis import figures as thesis_figures

pytestmark = pytest.mark.unit


@pytest.fixture
def kept(monkeypatch):
    """Have some made-up runs be those that were kept, in another order than they were measured."""
    table = trials(
        workers=(1, 2), batch_sizes=(128, 512), initializers=("default", "uniform"), repeats=2
    ).assign(eval_samples=0)
    made = {"table": table, "steps": steps(table)}
    tables = {name: t.sample(frac=1, random_state=1) for name, t in made.items()}
    have_kept(monkeypatch, **tables)
    return SimpleNamespace(**made)


def have_kept(monkeypatch, **tables):
    monkeypatch.setattr(figure_module, "Source", lambda *_: SimpleNamespace(**tables))


@pytest.mark.parametrize("number", ["6.1b-initializer", "6.3", "6.5b"])
def test_the_command_draws_what_a_notebook_keeps(labkit, kept, tmp_path, monkeypatch, number):
    book = home("smoke") / "figures"
    monkeypatch.setenv(settings.FIGURES, str(book))
    table = kept.table
    rates = number in ("6.3", "6.5b")
    table = table[table["initializer"] == "default"] if rates else table
    size = {"6.5b": [128, 512]}.get(number, [512])
    show(number, SimpleNamespace(table=table[table["batch_size"].isin(size)], steps=kept.steps))

    drawn = labkit("figure", number, "--profile", "smoke", "--output", str(tmp_path / "out"))
    assert drawn.exit_code == 0, drawn.output
    for suffix in ("svg", "png"):
        mine = (tmp_path / "out" / f"figure-{number}.{suffix}").read_bytes()
        assert mine == (book / f"{number}.{suffix}").read_bytes()


def test_what_a_profile_measures_in_a_cluster_is_looked_for_there(labkit, kept, monkeypatch):
    asked = []

    def source(reference, launcher):
        asked.append(launcher)
        return kept

    monkeypatch.setattr(figure_module, "Source", source)
    refused = labkit("figure", "6.3", "--profile", "emulated")
    assert asked == ["kubernetes"]
    assert refused.exit_code == 1
    assert "has no figure 6.3; `labkit reproduce --profile emulated` makes it" in refused.output


@pytest.mark.parametrize("number", ["5", "6.1b-initializer", "6.2a", "6.3", "6.10b"])
def test_published_figures_are_drawn_whatever_their_columns_were_called(labkit, tmp_path, number):
    drawn = labkit("figure", number, "--reference", "--output", str(tmp_path))
    assert drawn.exit_code == 0, drawn.output
    svg, png = map(str, (tmp_path / f"figure-{number}.svg", tmp_path / f"figure-{number}.png"))
    assert drawn.output.split() == [svg, png]


@pytest.mark.parametrize("profile", ["fifty-nodes", "emulated", "learning-curves"])
def test_a_published_figure_shows_the_runs_of_the_profile_asked_for(
    labkit, tmp_path, monkeypatch, profile
):
    number = "6.1b" if profile == "learning-curves" else "6.3"
    table = pd.read_csv(REFERENCE / profile / "figures" / f"{number}.csv")
    drawn, draw = [], thesis_figures.draw
    monkeypatch.setattr(
        thesis_figures, "draw", lambda which, chosen: drawn.append(chosen) or draw(which, chosen)
    )
    asked = labkit("figure", number, "--reference", "--profile", profile, f"--output={tmp_path}")
    assert asked.exit_code == 0, asked.output
    assert set(drawn[0].table["trial"]) == set(table["trial"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("6.2b", "--reference", "--profile=learning-curves"), "published with: --profile laptop"),
        (("6.3", "--reference", "--profile=fifty-node"), "did you mean 'fifty-nodes'"),
        (("6.3", "--profile=fifty-node"), "did you mean 'fifty-nodes'"),
    ],
)
def test_profiles_that_have_not_published_a_figure(labkit, options, said):
    refused = labkit("figure", *options)
    assert refused.exit_code == 1 and said in refused.output


def test_former_column_names_are_translated():
    table = trials().rename(columns={"oversubscribed": "time_shared", "variation": "steadiness"})
    assert list(modernise(table).columns) == list(trials().columns)
    assert modernise(trials()).equals(trials())


def test_a_figure_of_the_thesis_with_other_settings(labkit, kept, tmp_path):
    refused = labkit("figure", "6.4a", "--workers=1")
    assert "batch_size 256" in refused.output
    drawn = labkit("figure", "6.4a", "--batch-size=128", f"--output={tmp_path}")
    assert drawn.exit_code == 0, drawn.output
    assert b"6.4a Throughput, CNN, batch 128" in (tmp_path / "figure-6.4a.svg").read_bytes()


@pytest.mark.parametrize("kind", ["throughput", "speedup", "epoch-time", "learning-curve"])
def test_general_figures_of_selected_runs(labkit, kept, tmp_path, kind):
    drawn = labkit("figure", kind, "--batch-size=128,512", "--workers=1", "--workers=2",
                   "--initializer=uniform", "--panels=batch-size",
                   f"--output={tmp_path}/one.svg")  # fmt: skip
    assert drawn.exit_code == 0, drawn.output
    assert [path.name for path in tmp_path.glob("one*")] == ["one.svg"]


def test_slowdowns_of_the_published_run(labkit, tmp_path):
    """Of its numbers of workers those are drawn that are asked for; 5 ran on slow nodes."""
    drawn = labkit("figure", "slowdown", "--framework=tensorflow", "--model=lenet5",
                   "--batch-size=128", "--workers", "2", "5", "--reference",
                   f"--output={tmp_path}/one.svg")  # fmt: skip
    assert drawn.exit_code == 0, drawn.output
    text = (tmp_path / "one.svg").read_text()
    for count in (2, 5):
        assert f"{count} workers, simulated" in text
        assert f"{count} workers, measured" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("6.33",), ["did you mean '6.3'"]),
        (("throughputs",), ["did you mean 'throughput'"]),
        (("throughput", "--lines=batch_size"),
         ["initializer: default, uniform", "choose: --initializer default, or --initializer "
          "uniform, or --lines initializer"]),
        (("throughput", "--panels=batchsize"), ["panels: ", "did you mean 'batch_size'"]),
        (("throughput", "--workers=7"), ["workers: 7 is in none of the trials, only 1, 2"]),
        (("throughput", "--workers=x"), ["--workers: x; allowed: numbers"]),
        (("throughput", "--framework=mxnet", "--model", "lstm"),
         ["model: lstm is in none of the trials with framework mxnet, only lenet5"]),
        (("6.6", "--workers=2"), ["6.6: there is nothing to draw", "no rate with one worker",
                                  "In all trials: ", "workers 2"]),
        (("throughput", "--x=steps"), ["--x: figure throughput has no such option; allowed: "
                                       "--lines, --panels, --title"]),
        (("slowdown", "--lines=steps"), ["--lines: figure slowdown has no such option"]),
        (("slowdown", "--workers=x"), ["--workers: x; allowed: numbers"]),
        (("slowdown", "--workers=1"), ["workers: [1]; allowed: numbers from 2 on"]),
        (("throughput", "--profile=laptop"), ["--profile: only for figures of the thesis"]),
        (("6.3", "--lines=workers"), ["--lines: figure 6.3", "throughput, speedup"]),
        (("6.4a",), ["batch_size 256", "--profile NAME"]),
        (("6.3", "--profile=thesis"), ["has no figure 6.3", "labkit reproduce --profile thesis"]),
        (("learning-curve", "--x=update"), ["did you mean 'updates'"]),
    ],
)
def test_what_cannot_be_drawn_is_one_clear_error(labkit, kept, tmp_path, words, said):
    refused = labkit("figure", *words, "--output", str(tmp_path / "out"))
    assert refused.exit_code == 1, refused.output
    for piece in said:
        assert piece in refused.output
    assert "Traceback" not in refused.output
    assert not (tmp_path / "out").exists()


def test_where_trials_of_several_lengths_are_kept_it_says_how_to_select(
    labkit, kept, tmp_path, monkeypatch
):
    longer = kept.table.assign(steps=936, trial=kept.table["trial"] + "-longer")
    have_kept(monkeypatch, table=pd.concat([kept.table, longer]))
    refused = labkit("figure", "6.5a")
    assert refused.exit_code == 1
    assert "steps: 200, 936" in refused.output
    assert "choose: --steps 200, or --steps 936" in refused.output
    drawn = labkit("figure", "6.5a", "--steps", "936", f"--output={tmp_path}")
    assert drawn.exit_code == 0, drawn.output
    both = labkit("figure", "throughput", "--initializer=default", "--lines=steps,batch_size",
                  f"--output={tmp_path}")  # fmt: skip
    assert both.exit_code == 0, both.output


def test_trials_with_an_evaluation_are_drawn_if_there_are_no_others(
    labkit, kept, tmp_path, monkeypatch
):
    evaluated = kept.table.assign(eval_samples=None, trial=kept.table["trial"] + "-evaluated")
    both = pd.concat([kept.table, evaluated])
    for table, said in ((evaluated, 0), (both, 1)):
        have_kept(monkeypatch, table=table)
        drawn = labkit("figure", "6.6", f"--output={tmp_path}")
        assert drawn.exit_code == 0, drawn.output
        lines = drawn.stderr.splitlines()
        assert len(lines) == said
        assert all("--eval-samples 0" in line and "8 more have unset" in line for line in lines)
    drawn = labkit("figure", "6.6", "--eval-samples=unset", f"--output={tmp_path}")
    assert drawn.exit_code == 0 and not drawn.stderr


# --- a table of one's own -----------------------------------------------------------------------


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("workers,series,throughput\n2,a,20\n4,a,30\n1,b,9\n2,b,17\n")
    return path


@pytest.mark.parametrize("kind", ["throughput", "speedup"])
def test_a_table_of_ones_own_is_drawn(labkit, mine, tmp_path, kind):
    drawn = labkit("figure", kind, "--from", str(mine), "--output", f"{tmp_path}/own.svg")
    assert drawn.exit_code == 0, drawn.output
    assert drawn.output.split() == [str(tmp_path / "own.svg")]
    some = labkit("figure", kind, f"--from={mine}", "--workers", "1", "2", f"--output={tmp_path}")
    assert some.exit_code == 0, some.output
    assert (tmp_path / f"figure-{kind}.png").exists()


def test_how_a_wide_table_was_understood_is_said(labkit, mine, tmp_path):
    mine.write_text("workers\tx\ty\n1\t2\t3\n")
    drawn = labkit("figure", "throughput", f"--from={mine}", f"--output={tmp_path}")
    assert "mine.csv has no column throughput: x and y are taken for series" in drawn.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("learning-curve",), ["a table of one's own has no more than workers and throughput"]),
        (("epoch-time", "--reference", "--profile=smoke", "--launcher=kubernetes"),
         ["--launcher: not with --from", "it gives throughput and speedup",
          "--profile: not with --from", "--reference: not"]),
        (("6.3",), ["figure '6.3': a table of one's own"]),
        (("speedups",), ["did you mean 'speedup'"]),
        (("speedup", "--workers=2,4"), ["no row with 1 worker", "labkit figure throughput"]),
        (("throughput", "--workers=3"), ["workers: 3 is in none of the trials, only 1, 2, 4"]),
        (("throughput", "--framework=mxnet"), ["--framework: these runs do not say theirs"]),
        (("throughput", "--x=series"), ["--x: figure throughput has no such option"]),
        (("throughput", "--panels=serie"), ["did you mean 'series'"]),
    ],
)
def test_what_a_table_of_ones_own_cannot_be_drawn_as(labkit, mine, tmp_path, words, said):
    refused = labkit("figure", *words, f"--from={mine}", f"--output={tmp_path}/out")
    assert refused.exit_code == 1, refused.output
    for piece in said:
        assert piece in refused.stderr
    assert not (tmp_path / "out").exists()

"""The table of systems: every fact has a source, and its words are those that filters look for."""

import datetime
import tomllib

import pytest

from labkit.course import systems

pytestmark = pytest.mark.unit

TABLE = systems.read()

SMALL = """
as_of = "2026-11-22"

[sources]
page = "https://example.org"

[criteria]
python = { title = "in Python", german = "Python", priority = "high" }

[systems.old]
title = "Old"
rated = { python = "no" }
began = { value = "2010-01-31", source = "page" }
latest = { value = "2012-11", note = "1.0", source = "page" }
exchange = { value = ["all-reduce"], source = "page" }

[systems.new]
title = "New"
latest = { value = "2026-10", source = "page" }
"""


def changed(tmp_path, old, new):
    assert old in SMALL
    path = tmp_path / "systems.toml"
    path.write_text(SMALL.replace(old, new))
    return path


# --- what is published ----------------------------------------------------------------------


def test_every_fact_says_where_it_is_from():
    found = systems.facts(TABLE)
    assert (found.source.str.len() > 0).all() and (found.value.str.len() > 0).all()
    assert set(found.source) <= set(TABLE["sources"].values())


def test_no_date_is_in_the_future_and_none_ends_before_it_began():
    for _, row in systems.market(TABLE).iterrows():
        assert systems.date(row.latest) <= systems.date(TABLE["as_of"])
        if row.began:
            assert systems.date(row.began) <= systems.date(row.latest)


def test_the_thesis_would_choose_again_what_it_chose():
    """By table 3.2: all of high priority, and of these the one that needs nothing."""
    wanted = systems.criteria(TABLE)
    rated = systems.ratings(TABLE)
    high = wanted.index[wanted.priority == "high"]
    assert len(wanted) == len(rated) == 8 and rated.shape[1] == 5
    left = rated.columns[(rated.loc[high] == "yes").all()]
    assert list(left) == ["TensorFlow", "MXNet", "CNTK"]
    assert rated.loc["infrastructure", "TensorFlow"] == "none"


def test_labkits_own_frameworks_have_what_it_measures():
    rows = systems.market(TABLE).loc[["TensorFlow", "MXNet"]]
    for _, row in rows.iterrows():
        assert "asynchronous" in row.updates and "parameter server" in row.exchange
        assert row.runs == "yes" and row.machines == "several"


# --- how it is read -------------------------------------------------------------------------


def test_what_is_not_known_says_so(tmp_path):
    table = systems.read(changed(tmp_path, "[", "["))
    market = systems.market(table)
    assert market.loc["Old", "exchange"] == ("all-reduce",) and market.loc["New", "exchange"] == ()
    shown = systems.shown(market)
    assert shown.loc["Old", "exchange"] == "all-reduce"
    assert shown.loc["New", "exchange"] == shown.loc["New", "began"] == systems.UNKNOWN
    assert "exchange" not in systems.facts(table).loc["New"].index


def test_a_month_counts_from_its_first_day(tmp_path):
    assert systems.date("2012-11") == datetime.date(2012, 11, 1)
    assert systems.date("2012-11-30") == datetime.date(2012, 11, 30)
    quiet = systems.quiet_for(systems.read(changed(tmp_path, "[", "[")))
    assert quiet["Old"] == pytest.approx(14.06, abs=0.01)
    assert quiet["New"] == pytest.approx(52 / 365.25)


def test_the_timeline_shows_every_system():
    figure = systems.timeline(TABLE, quiet_years=2)
    (axes,) = figure.axes
    names = {label.get_text() for label in axes.get_yticklabels()}
    assert names == {row["title"] for row in TABLE["systems"].values()}
    ended = sum(line.get_color() == systems.ENDED for line in axes.lines)
    assert 0 < ended < len(axes.lines)
    later = systems.timeline(TABLE, quiet_years=100)
    assert not any(line.get_color() == systems.ENDED for line in later.axes[0].lines)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('note = "1.0", source = "page"', 'note = "1.0"', "old, latest: None is no source"),
        ('note = "1.0", source = "page"', 'source = "pag"', "did you mean 'page'"),
        ('"2012-11"', '"2012-13"', "old, latest: '2012-13' is no date"),
        ('"2012-11"', "2012", "old, latest: 2012 is no date"),
        ("began =", "begun =", "old, begun: no such column; did you mean 'began'"),
        ('["all-reduce"]', '["all reduce"]', "did you mean 'all-reduce'"),
        ('["all-reduce"]', '"all-reduce"', "no list of words"),
        ('note = "1.0"', 'not = "1.0"', "old, latest: not; a fact has value, note, source"),
        ("python = \"no\"", "java = \"no\"", "old, rated: needs one of each: python"),
        ('latest = { value = "2026-10", source = "page" }', "", "new: has no latest release"),
        ('page = "', 'other = "https://example.com"\npage = "', "nothing is from 'other'"),
        ('as_of = "2026-11-22"', 'as_of = "today"', "as_of: 'today' is no date"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_refused(tmp_path, old, new, said):
    with pytest.raises(systems.SystemsError, match="1 wrong") as error:
        systems.read(changed(tmp_path, old, new))
    assert said in str(error.value)


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    path = changed(tmp_path, "began =", "begun =")
    path.write_text(path.read_text().replace('"2012-11"', '"soon"'))
    with pytest.raises(systems.SystemsError, match="2 wrong"):
        systems.read(path)


def test_the_small_table_is_one():
    assert tomllib.loads(SMALL)["systems"]

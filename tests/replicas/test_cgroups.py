"""What control groups leave of the processors' time, in made-up hierarchies and in a real one."""

import contextlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from made_cgroups import Hierarchies, limit
from processes import REPOSITORY, cannot

from labkit.launchers.load import Load
from labkit.provenance import hardware
from labkit.replicas import cgroups, cores


@pytest.fixture
def hierarchies(tmp_path, monkeypatch):
    return Hierarchies(tmp_path, monkeypatch)


@pytest.fixture
def eight_cores(tmp_path, monkeypatch):
    """Have a process that may use eight processors, each a core."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(cores, "TOPOLOGY", tmp_path)
    hardware.cache_clear()
    yield
    hardware.cache_clear()


@pytest.mark.unit
def test_without_groups_there_is_no_limit(hierarchies, eight_cores):
    assert cgroups.cpu_quota() is None and cgroups.memory() is None
    assert cores.usable() == 8


@pytest.mark.unit
@pytest.mark.parametrize(
    ("told", "usable"),
    [("max 100000", 8), ("100000 100000", 1), ("250000 100000", 2), ("40000 100000", 1),
     ("150000 50000", 3), ("1600000 100000", 8)],
)  # fmt: skip
def test_a_quota_of_version_2(told, usable, hierarchies, eight_cores):
    limit(hierarchies.mount(), cpu__max=told)
    assert cores.usable() == usable
    assert hardware()["cores"] == usable


@pytest.mark.unit
@pytest.mark.parametrize(("quota", "usable"), [(-1, 8), (100_000, 1), (350_000, 3)])
def test_a_quota_of_version_1(quota, usable, hierarchies, eight_cores):
    group = hierarchies.mount("cpu,cpuacct", "/user/me")
    limit(group / "user/me", cpu__cfs_quota_us=quota, cpu__cfs_period_us=100_000)
    assert cores.usable() == usable


@pytest.mark.unit
def test_the_least_quota_of_all_groups_around_holds(hierarchies, eight_cores):
    place = hierarchies.mount(path="/slice/pod/container")
    limit(place / "slice", cpu__max="700000 100000")
    limit(place / "slice/pod", cpu__max="200000 100000")
    limit(place / "slice/pod/container", cpu__max="max 100000")
    limit(place / "slice/other", cpu__max="100000 100000")
    assert cgroups.cpu_quota() == (2.0, place / "slice/pod")


@pytest.mark.unit
def test_for_how_long_a_group_was_kept_waiting(hierarchies):
    """Version 2 tells microseconds, version 1 nanoseconds, and what has no limit nothing."""
    assert cgroups.throttled(cgroups.groups("cpu")) == 0
    place = hierarchies.mount(path="/pod")
    limit(place / "pod", cpu__stat="usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000")
    assert cgroups.throttled(cgroups.groups("cpu")) == 2.5


@pytest.mark.unit
def test_for_how_long_version_1_kept_a_group_waiting(hierarchies):
    place = hierarchies.mount("cpu,cpuacct", "/pod")
    limit(place / "pod", cpu__stat="nr_periods 9\nnr_throttled 3\nthrottled_time 750000000")
    assert cgroups.throttled(cgroups.groups("cpu")) == 0.75


@pytest.mark.unit
def test_both_versions_side_by_side(hierarchies, eight_cores):
    limit(hierarchies.mount(), cpu__max="500000 100000")
    limit(hierarchies.mount("cpu"), cpu__cfs_quota_us=300_000, cpu__cfs_period_us=100_000)
    hierarchies.mount("memory")
    assert cores.usable() == 3


@pytest.mark.unit
@pytest.mark.parametrize("path", ["/docker/abc", "/docker/abc/inner", "/../elsewhere"])
def test_a_container_sees_a_part_of_the_hierarchy(path, hierarchies, eight_cores):
    place = hierarchies.mount("cpu", path, root="/docker/abc")
    limit(place, cpu__cfs_quota_us=200_000, cpu__cfs_period_us=100_000)
    assert cores.usable() == 2


@pytest.mark.unit
def test_affinity_counts_as_well(hierarchies, eight_cores, monkeypatch):
    limit(hierarchies.mount(), cpu__max="300000 100000")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    assert cores.usable() == 2


@pytest.mark.unit
def test_the_least_memory_of_all_groups_around(hierarchies):
    place = hierarchies.mount(path="/a/b")
    limit(place / "a", memory__max=4000, memory__current=3000)
    limit(place / "a/b", memory__max="max", memory__current=1000)
    limit(hierarchies.mount("memory"), memory__limit_in_bytes=5000, memory__usage_in_bytes=1)
    assert cgroups.memory() == (4000, 3000)


STAT = "cpu  0 0 0 0 0 0 0 0 0 0\n" + "cpu{} {} 5 10 900 50 2 3 {} 0 0\n" * 3


@pytest.fixture
def stat(tmp_path, monkeypatch):
    """Return a function that says how long three processors worked, and what was stolen."""
    monkeypatch.setattr(cores, "STAT", tmp_path / "stat")
    monkeypatch.setattr(cores, "TICKS", 100)

    def say(*users, stolen=(0, 0, 0)):
        values = [v for i in range(3) for v in (i, users[i], stolen[i])]
        (tmp_path / "stat").write_text(STAT.format(*values))

    return say


@pytest.mark.unit
def test_only_the_time_of_usable_processors_counts(stat):
    stat(80, 180, 280, stolen=(0, 7, 0))
    assert cores.times({0}) == (1.0, 0.0)
    assert cores.times({0, 1}) == (3.0, 0.07)


def measured(monkeypatch, own, change):
    """Return the report on a window of 10 s in which `change` happens."""
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    load = Load()
    load.begin(lambda: 1.0)
    change()
    monkeypatch.setattr("time.monotonic", lambda: 110.0)
    load.finish(lambda: 1.0 + own)
    return load.report()


@pytest.mark.unit
def test_what_others_do_on_other_processors_holds_nobody_up(stat, hierarchies, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    stat(0, 0, 0)
    report = measured(monkeypatch, 19.0, lambda: stat(950, 950, 1000))
    assert (report["own_cpu"], report["other_cpu"]) == (1.9, 0.0)
    assert not report["overloaded"]


@pytest.mark.unit
def test_what_a_hypervisor_takes_is_not_ours(stat, hierarchies, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    stat(0, 0, 0)
    report = measured(monkeypatch, 15.0, lambda: stat(800, 700, 0, stolen=(200, 300, 0)))
    assert (report["own_cpu"], report["other_cpu"], report["steal_cpu"]) == (1.5, 0.5, 0.5)
    assert report["overloaded"]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("used", "report"), [({"cpu__stat": "nr_periods 5\nusage_usec {}000000"}, True), ({}, False)]
)
def test_a_quota_that_others_use_up(used, report, stat, hierarchies, monkeypatch):
    """Of one core ours had half, and another program of the group the rest."""
    place = hierarchies.mount()
    limit(place, cpu__max="100000 100000")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    stat(0, 0, 0)

    def change():
        stat(500, 500, 0)
        limit(place, **{name: text.format(10) for name, text in used.items()})

    limit(place, **{name: text.format(0) for name, text in used.items()})
    assert measured(monkeypatch, 5.0, change)["overloaded"] is report


@pytest.mark.unit
def test_the_whole_quota_for_ours_is_no_overload(stat, hierarchies, monkeypatch):
    place = hierarchies.mount("cpu,cpuacct")
    limit(place, cpu__cfs_quota_us=100_000, cpu__cfs_period_us=100_000, cpuacct__usage=0)
    stat(0, 0, 0)

    def change():
        stat(1000, 0, 0)
        limit(place, cpuacct__usage=10_000_000_000)

    assert not measured(monkeypatch, 10.0, change)["overloaded"]


@pytest.fixture
def half_a_core():
    """Make a real group with half a core's time, where this machine lets us; return its name."""
    place = next((p for p in cgroups.groups("cpu") if os.access(p, os.W_OK)), None)
    group = place and place / f"labkit-test-{os.getpid()}"
    try:
        if not group:
            raise PermissionError("no control group may be written to")
        group.mkdir()
    except OSError as error:
        cannot(f"no control group can be made here: {error}")
    try:
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_quota_us").write_text("50000")
        elif (group / "cpu.max").exists():
            (group / "cpu.max").write_text("50000 100000")
        else:
            cannot(f"{place} does not share out the processors' time")
        yield group
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


@pytest.mark.process
def test_a_real_quota(half_a_core):
    code = f"""
        import os
        open({str(half_a_core / "cgroup.procs")!r}, "w").write(str(os.getpid()))
        from labkit.replicas import cgroups, cores
        print(cores.usable(), *cgroups.cpu_quota())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=REPOSITORY, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    usable, quota, group = done.stdout.split()
    assert (usable, quota, Path(group)) == ("1", "0.5", half_a_core)


@pytest.mark.unit
def test_what_a_script_prints_before_the_barrier_is_not_the_beginning(stat, hierarchies):
    """Its waiting there would hide in the mean what others do afterwards."""
    stat(0, 0, 0)
    load = Load()
    load.printed(lambda: 1.0)
    load.begin(lambda: 2.0)
    load.begin(lambda: pytest.fail("asked for again, while the clock runs"))
    load.printed(lambda: pytest.fail("asked for again"))
    load.finish(lambda: 5.0)
    assert load.marks["begin"][1] == 2.0
    assert load.report()["own_cpu"] > 100  # 3 s within a moment, not 4


@pytest.mark.unit
def test_where_there_is_no_barrier_it_is(stat, hierarchies):
    stat(0, 0, 0)
    load = Load()
    assert load.report() == {}
    load.printed(lambda: 1.0)
    load.finish(lambda: 5.0)
    assert load.report()["own_cpu"] > 100

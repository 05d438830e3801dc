"""Whose trials in a cluster are, and who waits for whom: with a stand-in for its API server."""

import json
import threading

import pytest
from click.testing import CliRunner
from small_trials import trial

from labkit.cli import main
from labkit.launchers.kubernetes import launcher, manifests, owners, submission
from labkit.launchers.kubernetes.launcher import KubernetesLauncher
from labkit.launchers.kubernetes.manifests import name_of
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.protocol import TrialFailed, Waiting

pytestmark = pytest.mark.unit

DEADLINE = 600.0


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Have trials go well at once, as soon as they are submitted, and looks follow each other."""

    class Attempt:
        def __init__(self, cluster, submission, *_):
            self.submission = submission

        def known(self):
            return {}

        def wait(self):
            return {"submitted": self.submission.submitted}

    monkeypatch.setattr(launcher, "Attempt", Attempt)
    monkeypatch.setattr(submission, "POLL_INTERVAL", 0.01)


def start(api_server, one, who=None, directory="/nowhere/run", settings=None):
    """Have a trial in the cluster, as another labkit leaves it there; return its Job."""
    settings = settings or Settings()
    text = manifests.render(one, settings, DEADLINE, submitted=17.5)
    first, *_ = manifests.objects(text)
    if who:
        plain = manifests.render(one, settings, DEADLINE, secret="")
        owners.mark(first, owners.Owner(who, str(directory)), plain)
    job = api_server.put("jobs", first)
    text = manifests.render(one, settings, DEADLINE, 17.5, job["metadata"]["uid"])
    for item in manifests.objects(text)[1:]:
        plural = {"NetworkPolicy": "networkpolicies"}.get(item["kind"], f"{item['kind'].lower()}s")
        api_server.put(plural, item)
    return job


def run(one, directory, on_event=lambda event: None):
    with KubernetesLauncher(DEADLINE) as runner:
        return runner.run(one, directory, on_event)


def me(tmp_path):
    return owners.Owner.here(tmp_path).user


def test_what_a_killed_labkit_left_is_taken_over(api_server, tmp_path, capsys):
    start(api_server, trial(), me(tmp_path), tmp_path)
    assert run(trial(), tmp_path) == {"submitted": 17.5}
    assert f"takes over {name_of(trial())}" in capsys.readouterr().err
    assert not api_server.of_kind("jobs")


def test_with_other_settings_it_starts_anew(api_server, tmp_path, capsys):
    start(api_server, trial(), me(tmp_path), tmp_path, Settings(memory="1Gi"))
    assert run(trial(), tmp_path)["submitted"] > 17.5
    assert f"deletes {name_of(trial())}, which a labkit" in capsys.readouterr().err


def test_what_kubectl_applied_is_left_alone(api_server, tmp_path):
    """`labkit render` says nothing of an owner, nor of a time."""
    job = start(api_server, trial())
    with pytest.raises(TrialFailed, match=rf"labkit stop {name_of(trial())}"):
        run(trial(), tmp_path)
    assert job in api_server.of_kind("jobs").values()


def test_another_users_trial_is_waited_for(api_server, tmp_path):
    """And not deleted, neither while it runs nor when one's own begins."""
    job = start(api_server, trial(), "bob@elsewhere")
    waiting = threading.Event()
    said = []

    def observe(event):
        if isinstance(event, Waiting):
            said.append(event.for_)
            waiting.set()

    results = []
    thread = threading.Thread(target=lambda: results.append(run(trial(), tmp_path, observe)))
    thread.start()
    assert waiting.wait(10)
    assert job in api_server.of_kind("jobs").values()
    assert "bob@elsewhere" in said[0]
    deleted = [request for request in api_server.requests if request[0] == "DELETE"]
    api_server.delete("jobs", job["metadata"]["name"])
    thread.join(10)
    assert not deleted
    assert results[0]["submitted"] > 17.5


def test_an_interrupt_while_waiting_leaves_the_others_trial(api_server, tmp_path):
    job = start(api_server, trial(), "bob@elsewhere")

    def interrupt(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(trial(), tmp_path, interrupt)
    assert job in api_server.of_kind("jobs").values()


def test_what_a_deleted_job_had_owned_is_not_taken_over(api_server, tmp_path):
    """The cluster deletes it some seconds after the Job, and it would be missing then."""
    job = start(api_server, trial(), "bob@elsewhere")
    api_server.of_kind("jobs").pop(job["metadata"]["name"])
    old = {item["metadata"]["uid"] for item in api_server.of_kind("configmaps").values()}
    seen = []

    def observe(event):
        if isinstance(event, Waiting):
            seen.append([name for name in api_server.of_kind("jobs") if "worker" in name])
            for kind in ("jobs", "pods", "services", "configmaps", "networkpolicies"):
                api_server.of_kind(kind).clear()
        else:
            seen.append({i["metadata"]["uid"] for i in api_server.of_kind("configmaps").values()})

    run(trial(), tmp_path, observe)
    assert seen[0] == []  # nothing was begun before the rest of it was gone
    assert len(seen[1]) == 1 and not seen[1] & old


def test_a_trial_that_ended_and_stays_is_not_waited_for(api_server, tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "LEFT_ALONE", 0.05)
    job = start(api_server, trial(), "bob@elsewhere")
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    with pytest.raises(TrialFailed, match="of bob@elsewhere has ended.*labkit stop"):
        run(trial(), tmp_path)


def test_what_nobody_asks_for_any_more_is_deleted_at_the_end(api_server, tmp_path, capsys):
    other = trial(batch_size=16)
    start(api_server, other, me(tmp_path), tmp_path / "gone")
    run(trial(), tmp_path)
    said = capsys.readouterr().err
    assert f"{name_of(other)} in the cluster: left by a labkit that is gone" in said
    assert f"deletes {name_of(other)}" in said
    assert not api_server.of_kind("jobs")


@pytest.mark.parametrize(("who", "exists"), [("me", True), ("bob@elsewhere", False)])
def test_what_another_labkit_looks_after_stays(who, exists, api_server, tmp_path):
    other = trial(batch_size=16)
    directory = tmp_path / "other"
    if exists:
        directory.mkdir()
    job = start(api_server, other, me(tmp_path) if who == "me" else who, directory)
    run(trial(), tmp_path)
    assert job in api_server.of_kind("jobs").values()


def test_ps_names_what_nobody_looks_after(api_server, tmp_path):
    for batch, directory in ((16, tmp_path / "gone"), (8, tmp_path)):
        start(api_server, trial(batch_size=batch), me(tmp_path), directory)
    for job in api_server.of_kind("jobs").values():
        job["status"] = {}
    done = CliRunner().invoke(main, ["ps"])
    gone = name_of(trial(batch_size=16))
    assert f"{gone}: its labkit is gone" in done.output and f"labkit stop {gone}" in done.output
    assert done.output.count("its labkit is gone") == 1
    rows = json.loads(CliRunner().invoke(main, ["ps", "--format", "json"]).stdout)
    assert {row["trial"]: row["abandoned"] for row in rows}[gone] is True
    assert sum(row["abandoned"] for row in rows) == 1
    assert all(row["workers"] == trial().workers and row["age_s"] >= 0 for row in rows)


def test_what_somebody_creates_meanwhile_stays(api_server, tmp_path):
    """A trial of the same name, begun by another labkit as soon as ours was gone."""
    cluster = KubernetesLauncher().cluster
    start(api_server, trial(), me(tmp_path), tmp_path)
    delete = api_server.delete

    def delete_and_begin(kind, name):
        gone = delete(kind, name)
        if name.endswith("-worker"):
            start(api_server, trial(), "bob@elsewhere")
        return gone

    api_server.delete = delete_and_begin
    cluster.remove_and_check(manifests.selector_of(name_of(trial())), patience=1.0)
    job = api_server.of_kind("jobs")[f"{name_of(trial())}-worker"]
    assert json.loads(job["metadata"]["annotations"][owners.ANNOTATION])["user"] == "bob@elsewhere"

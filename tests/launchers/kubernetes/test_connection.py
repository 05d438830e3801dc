"""An API server that is busy or away, and pages: a stand-in's; no cluster is needed."""

import made_runs
import pytest
from api_server import HANG_UP

from labkit.launchers.kubernetes import api, connection, launcher
from labkit.launchers.kubernetes.api import Cluster
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.launcher import KubernetesLauncher
from labkit.launchers.kubernetes.settings import Settings

pytestmark = pytest.mark.unit


class Clock:
    """Time that passes only while somebody waits; each wait takes as long as it says."""

    def __init__(self, least=0.0):
        self.now, self.least, self.waits = 0.0, least, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.waits.append(seconds)
        self.now += max(seconds, self.least)


@pytest.fixture
def clock(monkeypatch):
    """Have a wait between two tries take half a minute, of no real time."""
    clock = Clock(least=30.0)
    monkeypatch.setattr(connection, "time", clock)
    return clock


LABELS = {"app.kubernetes.io/part-of": "labkit"}


def config_map(name, **labels):
    return {"kind": "ConfigMap", "metadata": {"name": name, "labels": LABELS | labels}}


def names(found):
    return [item["metadata"]["name"] for item in found]


def test_lists_come_in_pages(api_server, monkeypatch):
    monkeypatch.setattr(api, "PAGE", 2)
    for number in range(5):
        api_server.put("configmaps", config_map(f"page-{number}"))
    api_server.put("configmaps", {"metadata": {"name": "another's"}})
    assert names(Cluster(Settings()).list("ConfigMap")) == [f"page-{n}" for n in range(5)]
    assert len(api_server.requests) == 3


def test_a_list_that_expires_begins_again(api_server, monkeypatch):
    monkeypatch.setattr(api, "PAGE", 1)
    for number in range(3):
        api_server.put("configmaps", config_map(f"page-{number}"))
    found = []
    for item in Cluster(Settings()).list("ConfigMap"):
        found.append(item)
        if len(found) == 2:
            api_server.fail(410, "The provided continue parameter is too old")
    assert names(found) == ["page-0", "page-1", "page-2"]


def test_what_is_there_already_is_returned(api_server):
    cluster = Cluster(Settings())
    made = cluster.create(config_map("one"))
    assert cluster.create(config_map("one"))["metadata"]["uid"] == made["metadata"]["uid"]
    cluster.remove_and_check(api.PART_OF)
    assert cluster.left(api.PART_OF) == []


@pytest.mark.parametrize("status", [HANG_UP, 429, 500, 503, 504])
def test_what_passes_is_tried_again(status, api_server):
    cluster = Cluster(Settings())
    list(cluster.list("ConfigMap"))
    api_server.fail(status, "not now", times=2)
    cluster.create(config_map("one"))
    assert names(cluster.list("ConfigMap")) == ["one"]


@pytest.mark.parametrize(
    ("status", "says"),
    [(400, "no sense"), (403, "labkit may not create ConfigMap one"), (404, "no sense")],
)
def test_what_stays_is_said_at_once(status, says, api_server):
    cluster = Cluster(Settings())
    api_server.fail(status, "no sense")
    with pytest.raises(ClusterError, match=says):
        cluster.create(config_map("one"))
    assert len(api_server.requests) == 1


# --- outages --------------------------------------------------------------------------------


def test_an_outage_of_some_minutes_ends_no_trial(api_server, clock):
    cluster = Cluster(Settings())
    list(cluster.list("ConfigMap"))
    api_server.fail(HANG_UP, times=3)
    api_server.fail(502, times=3, body=b"<html>Bad Gateway</html>")
    api_server.fail(503, "etcdserver: leader changed", times=2)
    list(cluster.list("ConfigMap"))
    assert clock.now == 8 * 30


def test_an_outage_that_lasts_does(api_server, clock):
    cluster = Cluster(Settings())
    list(cluster.list("ConfigMap"))
    api_server.fail(HANG_UP, times=99)
    with pytest.raises(ClusterError, match="has not answered for 300 s.*list ConfigMaps"):
        list(cluster.list("ConfigMap"))


def test_how_long_it_may_last_is_a_setting(api_server, clock):
    cluster = Cluster(Settings(patience=3600))
    list(cluster.list("ConfigMap"))
    api_server.fail(HANG_UP, times=100)
    list(cluster.list("ConfigMap"))
    cluster = Cluster(Settings(patience=0))
    list(cluster.list("ConfigMap"))
    api_server.fail(HANG_UP, times=1)
    with pytest.raises(ClusterError, match="has not answered"):
        list(cluster.list("ConfigMap"))


def test_patience_can_end_while_a_request_waits(api_server, clock, monkeypatch):
    """As after Ctrl-C: nobody waits minutes for an API server that is away to delete a trial."""
    cluster = Cluster(Settings())
    list(cluster.list("ConfigMap"))
    api_server.fail(HANG_UP, times=99)

    def sleep(seconds):
        cluster.connection.patience = 0

    monkeypatch.setattr(clock, "sleep", sleep)
    with pytest.raises(ClusterError, match="has not answered"):
        list(cluster.list("ConfigMap"))
    assert len(api_server.requests) == 3


def test_an_interruption_does_not_wait_for_it(api_server, clock, monkeypatch, tmp_path, capsys):
    class Attempt:
        def __init__(self, *_):
            api_server.fail(HANG_UP, times=99)

        def known(self):
            return {}

        def wait(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(launcher, "Attempt", Attempt)
    with KubernetesLauncher() as runner, pytest.raises(KeyboardInterrupt):
        runner.run(made_runs.trial(), tmp_path, lambda event: None)
    assert clock.now <= 60
    assert "could not be deleted: the API server" in capsys.readouterr().err


def test_one_that_has_never_answered_is_not_waited_for(api_server, clock):
    api_server.fail(HANG_UP, times=99)
    with pytest.raises(ClusterError, match="Is the cluster up"):
        list(Cluster(Settings()).list("ConfigMap"))
    assert len(api_server.requests) == 2


def test_a_webhook_that_fails_is_said_sooner(api_server, clock):
    """The API server is there, and somebody has to mend it."""
    cluster = Cluster(Settings())
    list(cluster.list("ConfigMap"))
    api_server.fail(500, 'failed calling webhook "a.b": context deadline exceeded', times=99)
    with pytest.raises(ClusterError, match='failed calling webhook "a.b"'):
        cluster.create(config_map("one"))
    assert clock.now <= 60


def test_it_is_asked_again_when_it_says(api_server, clock):
    cluster = Cluster(Settings())
    list(cluster.list("ConfigMap"))
    api_server.fail(429, "too many requests", Retry_After=7)
    list(cluster.list("ConfigMap"))
    assert clock.waits == [7.0]


# --- conflicts ------------------------------------------------------------------------------


def test_a_conflict_is_not_one_of_names(api_server):
    cluster = Cluster(Settings())
    list(cluster.list("ConfigMap"))
    message = 'Operation cannot be fulfilled on resourcequotas "q": the object has been modified'
    api_server.fail(409, message, times=2, reason="Conflict", method="POST")
    made = cluster.create(config_map("one"))
    assert [r[0] for r in api_server.requests] == ["GET", "POST", "POST", "POST"]
    assert made["metadata"]["uid"] == api_server.objects["configmaps"]["one"]["metadata"]["uid"]


# --- credentials ----------------------------------------------------------------------------


def test_credentials_that_have_expired_are_read_again(api_server, tmp_path):
    """Those of a cluster of a provider live an hour; its tools renew them in the kubeconfig."""
    cluster = Cluster(Settings())
    cluster.create(config_map("one"))
    api_server.token = "renewed"
    api_server.write_kubeconfig(tmp_path / "kubeconfig")
    assert names(cluster.list("ConfigMap")) == ["one"]
    api_server.token = "renewed again"
    api_server.put("pods", {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}})
    api_server.write_kubeconfig(tmp_path / "kubeconfig")
    with cluster.log("a") as lines:
        assert list(lines) == []


def test_a_token_in_a_file_is_read_again(api_server, tmp_path):
    """As of a service account, in a pod."""
    (tmp_path / "token").write_text("secret")
    api_server.write_kubeconfig(tmp_path / "kubeconfig", tokenFile=str(tmp_path / "token"))
    cluster = Cluster(Settings())
    list(cluster.list("ConfigMap"))
    api_server.token = "renewed"
    (tmp_path / "token").write_text("renewed")
    list(cluster.list("ConfigMap"))


def test_credentials_that_stay_wrong_are_said_at_once(api_server):
    cluster = Cluster(Settings())
    list(cluster.list("ConfigMap"))
    api_server.token = "another"
    with pytest.raises(ClusterError, match="does not accept the credentials"):
        list(cluster.list("ConfigMap"))
    assert len(api_server.requests) == 3

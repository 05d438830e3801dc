"""Made-up control groups: what a kernel shows of them, in files."""

from labkit.replicas import cgroups


class Hierarchies:
    """The hierarchies of control groups that a made-up process is in; none at first.

    Parameters
    ----------
    folder : Path
    monkeypatch : MonkeyPatch
    """

    def __init__(self, folder, monkeypatch):
        self.folder = folder / "cgroups"
        (self.folder / "self").mkdir(parents=True)
        monkeypatch.setattr(cgroups, "PROC", self.folder / "self")

    def mount(self, controllers="", path="/", root="/"):
        """Mount a part of a hierarchy: of version 1 with controllers, of version 2 without."""
        place = self.folder / (controllers or "unified")
        kind = f"cgroup cgroup rw,{controllers}" if controllers else "cgroup2 cgroup2 rw"
        self._add("mountinfo", f"30 23 0:26 {root} {place} rw,nosuid shared:4 - {kind}")
        self._add("cgroup", f"{1 if controllers else 0}:{controllers}:{path}")
        place.mkdir()
        return place

    def _add(self, name, line):
        with (self.folder / "self" / name).open("a") as file:
            file.write(f"{line}\n")


def limit(group, **files):
    """Write a group's files; a dot in a name is a double underscore here."""
    group.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (group / name.replace("__", ".")).write_text(f"{content}\n")

"""The house: imports go down its floors only, rooms stay small, and what runs anywhere may."""

import ast
import graphlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import REPOSITORY, cannot

from labkit.trials.frameworks import FRAMEWORKS

pytestmark = pytest.mark.unit

PACKAGE = REPOSITORY / "labkit"

FLOORS = (
    ("errors", "settings", "report"),
    ("replicas",),
    ("datasets",),
    ("trials",),
    ("rates",),
    ("provenance", "analysis", "prediction", "simulation"),
    ("runs",),
    ("launchers",),
    ("progress",),
    ("planning",),
    ("campaign",),
    ("figures",),
    ("thesis",),
    ("course",),
    ("book",),
    ("doctor", "model_check"),
    ("cli",),
)
"""From the ground up. A room imports from those below it; rooms of one floor not from each other.

The face, ``labkit/__init__.py``, is the roof: it may import from all, and none but a user from it.
"""

FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

MAX_FILE, MAX_CLASS = 400, 150
"""Lines."""

BESIDE_A_FRAMEWORK = [
    PACKAGE / "__init__.py", PACKAGE / "report.py", *sorted((PACKAGE / "replicas").rglob("*.py")),
]  # fmt: skip


def files():
    return sorted(PACKAGE.rglob("*.py"))


def name(path):
    return str(path.relative_to(REPOSITORY))


def imports(path):
    """Yield the names of all modules that a file imports, also inside functions and for types."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name(path)}: relative import in line {node.lineno}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def source_of(module):
    """Return the file of labkit's that a dotted name is found in; None if it is not labkit's."""
    first, *rest = module.split(".")
    if first != "labkit":
        return None
    path = PACKAGE
    for part in rest:
        if (path / f"{part}.py").exists():
            return path / f"{part}.py"
        if not (path / part).is_dir():
            break
        path /= part
    return path / "__init__.py"


def room(path):
    """Return the room that a file of labkit's is in; none for the face."""
    part = path.relative_to(PACKAGE).parts[0]
    return None if part == "__init__.py" else part.removesuffix(".py")


def folder(path):
    """Return the folder that a file is in; a file directly in labkit's is a room of its own."""
    return path if path.parent == PACKAGE else path.parent


def edges():
    """Yield each import of one file of labkit's by another, with the name that is imported."""
    for path in files():
        for module in imports(path):
            target = source_of(module)
            if target not in (None, path):
                yield path, target, module


def test_every_room_has_a_floor():
    assert {room(path) for path in files()} - {None} == FLOOR_OF.keys()


def test_imports_go_down():
    back = []
    for path, target, module in edges():
        here, there = room(path), room(target)
        if here is None or here == there or module == "labkit.__version__":
            continue
        if there is None or FLOOR_OF[there] >= FLOOR_OF[here]:
            back.append(f"{name(path)} imports {module}")
    assert not back, "\n".join(back)


@pytest.mark.parametrize("what", ["files", "folders"])
def test_there_is_no_circle(what):
    graph = {}
    for path, target, _ in edges():
        if room(path) is None:
            continue
        here, there = (path, target) if what == "files" else (folder(path), folder(target))
        if here != there:
            graph.setdefault(here, set()).add(there)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(map(name, error.args[1])))


def test_rooms_are_small():
    large = []
    for path in files():
        text = path.read_text()
        if (lines := text.count("\n")) > MAX_FILE:
            large.append(f"{name(path)}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                lines = node.end_lineno - node.lineno + 1
                if lines > MAX_CLASS:
                    large.append(f"{name(path)}: class {node.name}, {lines} lines")
    assert not large, "\n".join(large)


# --- what runs beside a framework, whatever its Python --------------------------------------


def test_replicas_need_numpy_and_their_framework_only():
    frameworks = {module for row in FRAMEWORKS.values() for module in row.modules}
    allowed = {"labkit", "numpy", *frameworks, *sys.stdlib_module_names}
    for path in BESIDE_A_FRAMEWORK:
        needed = {module.partition(".")[0] for module in imports(path)} - allowed
        assert not needed, f"{name(path)} imports {', '.join(needed)}"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_trainer_sums_its_code_when_it_is_imported(framework):
    """Later its file may be another than what runs in a process that has been kept."""
    tree = ast.parse(FRAMEWORKS[framework].trainer.read_text())
    sums = [node for node in ast.walk(tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "checksum"]  # fmt: skip
    at_import = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    assert len(sums) == 1 and sums[0] in at_import


def test_replicas_keep_to_what_python_3_6_has():
    """Neither newer syntax nor newer members of the standard library."""
    vermin = [sys.executable, "-c", "import vermin; vermin.main()", "--no-tips"]
    # Annotations count, as Python evaluates them; dataclasses can be had for 3.6.
    rules = ["--target=3.6-", "--violations", "--eval-annotations", "--backport", "dataclasses"]
    done = subprocess.run(
        [*vermin, *rules, *BESIDE_A_FRAMEWORK], stdout=subprocess.PIPE, text=True
    )
    assert done.returncode == 0, done.stdout


OLD = [
    path
    for path in (
        shutil.which("python3.6"),
        *map(str, sorted(Path.home().glob(".pyenv/versions/3.6.*/bin/python3.6"))),
    )
    if path and not subprocess.run([path, "-c", ""], capture_output=True).returncode
]
"""The interpreters of Python 3.6 on this machine, if it has any."""


def test_python_3_6_compiles_replicas():
    if not OLD:
        cannot("no Python 3.6 on this machine (pyenv install 3.6)")
    code = "import sys; [compile(open(p).read(), p, 'exec') for p in sys.argv[1:]]"
    done = subprocess.run(
        [OLD[-1], "-c", code, *BESIDE_A_FRAMEWORK], stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == 0, done.stderr

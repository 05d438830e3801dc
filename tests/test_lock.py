"""The lock: what it promises, and what labkit imports of it."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
PYTHONS = ("3.11", "3.12")
RUNTIME = [Requirement(line) for line in PYPROJECT["project"]["dependencies"]]
DIRECT = RUNTIME + [Requirement(line) for line in PYPROJECT["dependency-groups"]["dev"]]


def locked(text: str, python: str) -> dict[str, Requirement]:
    """Return the requirements of a lock that apply to a version of Python on Linux x86-64."""
    target = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
    }
    found = {}
    for line in re.findall(r"^[^\s#].*(?= \\$)", text, flags=re.MULTILINE):
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate(target):
            assert requirement.name not in found, f"{requirement.name} is locked twice"
            found[requirement.name] = requirement
    return found


def version(requirement: Requirement) -> str:
    (pin,) = requirement.specifier
    assert pin.operator == "==", f"{requirement} is not pinned"
    return pin.version


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_holds_every_direct_dependency_in_its_range(python):
    pins = locked(LOCK, python)
    for requirement in DIRECT:
        name = canonicalize_name(requirement.name)
        assert name in pins, f"{name} is not locked; run make lock"
        assert requirement.specifier.contains(version(pins[name])), f"{name}; run make lock"


def test_the_lock_was_made_from_this_pyproject():
    sources = ("labkit (pyproject.toml)", "labkit (pyproject.toml:dev)")
    asked, name = set(), ""
    for line in LOCK.splitlines():
        if not line.startswith((" ", "#")):
            name = line.partition("==")[0]
        elif line.endswith(sources):
            asked.add(name)
    assert asked == {canonicalize_name(requirement.name) for requirement in DIRECT}


def test_every_locked_package_has_hashes():
    blocks = re.split(r"\n(?=[a-z0-9])", LOCK)[1:]
    assert len(blocks) > 50
    for block in blocks:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block.splitlines()[0]


def test_the_lock_names_no_address_and_no_path_of_a_machine():
    assert not re.search(r"://|--index|--find-links|\.(org|com|io|net)\b|/(home|root|tmp)/", LOCK)
    assert "make lock" in LOCK.splitlines()[1]


def test_both_pythons_get_the_same_versions():
    older, newer = (locked(LOCK, python) for python in PYTHONS)
    for name in older.keys() & newer.keys():
        assert version(older[name]) == version(newer[name]), name


def test_conda_users_get_the_same_versions():
    (pip,) = (entry["pip"] for entry in ENVIRONMENT if isinstance(entry, dict))
    (python,) = (entry for entry in ENVIRONMENT if str(entry).startswith("python="))
    number = python.partition("=")[2]
    installed = {}
    for line in pip:
        option, _, file = line.partition(" ")
        assert option == "-r", f"environment.yml: {line} can differ from the lock"
        installed |= locked((ROOT / file).read_text(), number)
    assert SpecifierSet(PYPROJECT["project"]["requires-python"]).contains(number)
    for requirement in DIRECT:
        assert canonicalize_name(requirement.name) in installed


PACKAGES = {"tensorflow": "tensorflow-cpu", "yaml": "pyyaml"}


def test_what_labkit_imports_is_declared():
    declared = {canonicalize_name(requirement.name) for requirement in RUNTIME}
    for path in (ROOT / "labkit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            else:
                continue
            for module in {name.partition(".")[0] for name in names}:
                if module == "labkit" or module in sys.stdlib_module_names:
                    continue
                name = canonicalize_name(PACKAGES.get(module, module))
                assert name in declared, f"{path.relative_to(ROOT)} imports {module}"


@pytest.mark.parametrize("module", ["labkit", "labkit.cli"])
def test_import_is_light(module):
    heavy = "{'tensorflow', 'mxnet', 'pandas', 'matplotlib', 'seaborn', 'scipy', 'papermill'}"
    code = f"import sys, {module}; print(*sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []

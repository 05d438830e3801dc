"""How labkit is cited, and what has changed in it."""

import re

import pytest
import yaml
from processes import REPOSITORY

import labkit

pytestmark = pytest.mark.unit

CITATION = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
CHANGELOG = (REPOSITORY / "CHANGELOG.md").read_text()

REQUIRED = {"authors", "cff-version", "message", "title"}
"""Of a citation file, by the Citation File Format 1.2.0."""

OF_A_REFERENCE = {"authors", "title", "type"}

ALLOWED = REQUIRED | {
    "abstract", "commit", "contact", "date-released", "doi", "identifiers", "keywords", "license",
    "license-url", "preferred-citation", "references", "repository", "repository-artifact",
    "repository-code", "type", "url", "version",
}  # fmt: skip

PERSON = {
    "address", "affiliation", "alias", "city", "country", "email", "family-names", "fax",
    "given-names", "name-particle", "name-suffix", "orcid", "post-code", "region", "tel",
    "website",
}  # fmt: skip
ENTITY = {
    "address", "alias", "city", "country", "date-end", "date-start", "email", "fax", "location",
    "name", "orcid", "post-code", "region", "tel", "website",
}  # fmt: skip


def check_author(author):
    assert set(author) <= (ENTITY if "name" in author else PERSON)
    assert author.get("name") or author.get("family-names")


def test_the_citation_has_what_its_format_requires():
    assert REQUIRED <= set(CITATION) <= ALLOWED
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] in ("software", "dataset")
    assert all(CITATION[name] for name in REQUIRED)
    for author in CITATION["authors"]:
        check_author(author)


def test_it_is_of_this_software():
    assert CITATION["version"] == labkit.__version__
    assert CITATION["license"] == "Apache-2.0"
    assert "Apache License" in (REPOSITORY / "LICENSE").read_text()


def test_the_thesis_is_a_reference():
    [thesis] = CITATION["references"]
    assert set(thesis) >= OF_A_REFERENCE
    assert thesis["type"] == "thesis" and thesis["title"].startswith("Horizontales Skalieren")
    for author in thesis["authors"]:
        check_author(author)
    check_author(thesis["institution"])
    assert isinstance(thesis["year"], int) and 1 <= thesis["month"] <= 12


def test_the_changelog_keeps_its_form():
    heads = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    assert heads[0] == "Unreleased"
    versions = [re.fullmatch(r"(\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)", head) for head in heads[1:]]
    assert all(versions)
    assert versions[0][1] == labkit.__version__
    assert [v[2] for v in versions] == sorted((v[2] for v in versions), reverse=True)
    groups = set(re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE))
    assert groups <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}

"""Cells as HTML: nbconvert's, with equations as MathML, which browsers draw by themselves."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import pass_context
from latex2mathml import converter
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath


class _Renderer(IPythonRenderer):
    """Markdown as HTML."""

    def inline_math(self, body: str) -> str:
        return converter.convert(body)

    def block_math(self, body: str) -> str:
        body = re.sub(r"\\tag\{([^}]*)\}", r"\\qquad\\text{(\1)}", body)
        return f'<div class="equation">{converter.convert(body, display="block")}</div>\n'


class Exporter(HTMLExporter):
    """Notebooks as HTML that needs no script, and so no network, to show equations."""

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Return Markdown as HTML; the filter of this name that cells go through."""
        return MarkdownWithMath(renderer=_Renderer(escape=False)).render(source)

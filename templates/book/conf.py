"""How Sphinx makes the book from what `labkit book` has laid ready for it."""

project = "labkit"
html_title = "How training scales out"
language = "en"
extensions = ["myst_nb", "sphinx.ext.mathjax", "sphinx-mathjax-offline"]
exclude_patterns = ["executed"]

# Notebooks are shown as they have been executed, never executed here.
nb_execution_mode = "off"
nb_render_markdown_format = "myst"
nb_ipywidgets_js = {}  # else a page with a slider would load a script from another host
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
myst_enable_extensions = ["amsmath", "attrs_block", "dollarmath"]
myst_heading_anchors = 4

html_theme = "sphinx_book_theme"
html_context = {"default_mode": "auto"}  # dark where the reader's system is
html_theme_options = {
    "footer_content_items": [],
    "home_page_in_toc": True,
    "navbar_persistent": [],
    "search_bar_text": "Search the book",
    "show_toc_level": 2,
    "use_download_button": False,
}
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False


def setup(app):
    """Draw equations without fonts, which browsers refuse to pages opened from a disk."""
    app.config.mathjax_path = "mathjax/tex-svg.js"

"""Settings of the site: Markdown pages, the gallery of examples and the reference, by Sphinx.

`make docs` builds it into site/. A page is a Markdown file beside this one. A script in examples/
is a page of the gallery. docs/decisions/site.md says why Sphinx.
"""

import os
import re
from importlib.metadata import version as installed_version
from pathlib import Path

from pygments.lexers.special import TextLexer

import parafair

DOCS = Path(__file__).parent
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the outputs are those of one thread

project = "parafair"
author = copyright = "The parafair developers"  # noqa: A001  (the name is Sphinx's)
version = release = installed_version("parafair")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
# The gallery's own list of scripts is left out: examples.md lists them by topic.
exclude_patterns = ["data/*/notes.md", "gallery/index.rst", "gallery/backreferences"]
templates_path = ["_templates"]
default_role = "code"  # `name` in docstrings
smartquotes = False  # quotes in prose are often those of code
highlight_language = "text"  # a block without a language is output or a formula

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autosummary_generate = True
# Files whose names differ in case alone would be one file on some systems.
autosummary_filename_map = {
    f"parafair.{name}": f"parafair.{name}-class" for name in ("Audit", "Frontier", "Fit")
}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False
napoleon_use_ivar = True

MARK = "_static/mark.svg"
html_theme = "pydata_sphinx_theme"
html_title = "parafair"
html_static_path = ["_static"]
html_css_files = ["parafair.css"]
html_favicon = MARK
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "parafair", "image_light": MARK, "image_dark": MARK},
    "navbar_align": "left",
    "navbar_persistent": ["search-button-field"],
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    # Their contrast is that of WCAG 2, which those of other styles is not.
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "faq": [], "glossary": [], "comparison": []}

# Scripts that need data of the reader's own or minutes: their pages say so and show what they gave.
NOT_EXECUTED = ("03_", "04_", "08_", "09_", "demo")
# Files to copy, which are shown on a page of the guide.
NOT_IN_THE_GALLERY = ("apply_encoder", "many_processes", "out_of_core")
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "backreferences_dir": "gallery/backreferences",
    "filename_pattern": rf"[/\\](?!{'|'.join(NOT_EXECUTED)})[^/\\]+\.py$",
    "ignore_pattern": rf"^(?:{'|'.join(NOT_IN_THE_GALLERY)})\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 0,
    "plot_gallery": os.environ.get("PARAFAIR_GALLERY", "run") == "run",
}


def link_examples_to_the_gallery(app, docname, source):
    """Turn a link to a script, which works where the source is read, into one to its page."""
    up = "../" * docname.count("/")
    source[0] = re.sub(r"\]\((?:\.\./)+examples/(\w+)\.py\)", rf"]({up}gallery/\1.rst)", source[0])


def keep_formulas(app, what, name, obj, options, lines):
    """Show the indented lines after a paragraph of a docstring as they are: they are formulas."""
    text = "\n".join(lines)
    lines[:] = re.sub(r"(?m)^([^-\s].*)(?<!::)\n\n(?=    \S)", r"\1\n\n::\n\n", text).split("\n")


def skip_main_names(app, what, name, obj, skip, options):
    """Leave out of the pages of modules what has a page as a name of `parafair` itself."""
    main = parafair.__all__
    return True if what == "module" and name in main and getattr(parafair, name) is obj else None


def setup(app):
    """Register what is above."""
    app.add_lexer("csv", TextLexer)  # Pygments has none
    app.connect("source-read", link_examples_to_the_gallery)
    app.connect("autodoc-process-docstring", keep_formulas, priority=400)  # before napoleon's
    app.connect("autodoc-skip-member", skip_main_names)

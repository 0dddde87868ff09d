"""How the site is built; `scripts/docs` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import generated  # noqa: E402

from ddpclassify import __version__  # noqa: E402

project = "ddpclassify"
version = release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "ddpclassify"

# The notebooks keep their outputs, and a test runs them; the site shows them as they are.
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
copybutton_prompt_text = "$ "
autodoc_typehints = "none"
autodoc_member_order = "bysource"

generated.write(HERE / "generated")

"""Check the links of the built site, without a network.

    python docs/links.py site

prints every link, picture or script of a page that leads to no file or to no heading, and fails if
there are any. Links to other sites are not fetched.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The places of a page, and where it points to."""

    def __init__(self, text):
        super().__init__()
        self.places, self.targets = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Collect ids, links and files."""
        found = dict(attrs)
        self.places |= {found[key] for key in ("id", "name") if found.get(key)}
        self.targets += [found[key] for key in ("href", "src") if found.get(key)]


def broken(site):
    """Return each broken link with the page it is on."""
    # Files of the theme in _static are templates, not pages.
    paths = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: Page(path.read_text("utf-8")) for path in paths}
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            goal = goal / "index.html" if goal.is_dir() else goal
            place = unquote(parts.fragment)
            if not goal.exists():
                yield path, target, "no such file"
            elif place and goal in pages and place not in pages[goal].places:
                yield path, target, "no such place"


def main(site):
    """Print broken links and return how many there are."""
    found = list(broken(site.resolve()))
    for path, target, why in found:
        print(f"{path}: {target}: {why}")
    pages = len(list(site.rglob("*.html")))
    print(f"{pages} pages, {len(found)} broken links")
    return len(found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) > 0)

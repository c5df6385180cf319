"""browser_check.py FILE CHARTS [MAKERS]: opens a report in headless Chromium and exits 1, saying why, unless it drew that
many charts of those that it could (7), logged no error, asked for nothing over the network and kept names from outside
as text."""
import html.parser
import pathlib
import subprocess
import sys
import tempfile



class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.root = {}
        self.tags = []
        self.canvases = []
        self.handlers = []
        self.data = []  # ids of script elements that hold data

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.handlers += [name for name in attributes if name.startswith("on")]
        if tag == "html":
            self.root = attributes
        if tag == "script" and attributes.get("type") == "application/json":
            self.data.append(attributes.get("id"))
        if tag == "canvas":
            self.canvases.append(attributes)


def open_page(path):
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-extensions", f"--user-data-dir={profile}",
             "--enable-logging=stderr", "--window-size=1200,2400", "--dump-dom", path.resolve().as_uri()],
            capture_output=True, text=True, timeout=100, check=True)
    page = Page()
    page.feed(done.stdout)
    return page, done.stderr


def problems(page, log, charts, makers):
    for key, wanted in (("data-charts", charts), ("data-empty", makers - charts), ("data-errors", 0),
                        ("data-requests", 0)):
        if page.root.get(key) != str(wanted):
            yield f"{key} is {page.root.get(key)}, expected {wanted}"
    for line in log.splitlines():
        if "CONSOLE" in line:
            yield "console: " + line
    for canvas in page.canvases:
        if canvas.get("role") != "img" or len(canvas.get("aria-label", "")) < 20:
            yield f"canvas {canvas.get('id')} has no text alternative"
    own = 2 + len(page.data)
    if page.tags.count("script") != own or not set(page.data) <= {"result", "history"}:
        yield f"{page.tags.count('script')} script elements, expected {own}; data {page.data}"
    if "img" in page.tags or page.handlers:
        yield f"a name from outside became markup: {page.handlers}"


page, log = open_page(pathlib.Path(sys.argv[1]))
found = list(problems(page, log, int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 7))
print("\n".join(found), file=sys.stderr)
sys.exit(1 if found else 0)

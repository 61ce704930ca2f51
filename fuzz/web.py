"""A published model on a web server of this machine."""

import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from elmokit.formats.catalogue import entries

_CATALOGUE = """
[hosts]
[languages]
en = "English"
[tokens]
words = {{ tokenizer = "regex" }}
[fuzz]
language = "en"
publisher = "us"
format = "official HDF5 pair"
tokens = "words"
text = "none"
licence = "none"
[[fuzz.models]]
name = "published"
files = [{files}]
"""


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def publish(model: Path, catalogue: Path) -> None:
    """Make the files of a folder the one published model of this process and its children."""
    handler = partial(_Silent, directory=str(model))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    files = (f'{{ name = "{p.name}", urls = ["{url}/{p.name}"] }}' for p in sorted(model.iterdir()))
    catalogue.write_text(_CATALOGUE.format(files=", ".join(files)), encoding="utf-8")
    entries._DATA = catalogue
    entries._catalogue.cache_clear()
    os.environ["NO_PROXY"] = "*"

"""A web server with bad habits."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Page:
    """What the server has at a path, and how it behaves.

    Attributes:
        data: The bytes of the file.
        status: The answer's status; other than 200 and 206 it has no body.
        redirect: Where to send the client instead.
        drops: How many bytes each of the next answers has before the connection breaks.
        stall: The next answer stops in the middle until this is set.
        ranges: Whether a part of the file can be asked for.
        etag: The version of the file.
        kind: Content-Type.
        needs: What the User-Agent must begin with.
    """

    data: bytes = b""
    status: int = 200
    redirect: str = ""
    drops: list[int] = field(default_factory=list)
    stall: threading.Event | None = None
    ranges: bool = True
    etag: str | None = '"v1"'
    kind: str = "application/octet-stream"
    needs: str = ""


@dataclass
class Server:
    """The pages by path, and the requests that were made: (path, Range)."""

    url: str
    pages: dict[str, Page]
    requests: list[tuple[str, str | None]]


class _Handler(BaseHTTPRequestHandler):
    pages: dict[str, Page]
    requests: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        page = self.pages.get(self.path, Page(status=404))
        wanted = self.headers.get("Range") if page.ranges else None
        self.requests.append((self.path, self.headers.get("Range")))
        if not self.headers.get("User-Agent", "").startswith(page.needs):
            page = Page(status=406)
        if page.redirect:
            self.send_response(302)
            self.send_header("Location", page.redirect)
            self.end_headers()
            return
        start = 0
        if wanted and page.status == 200 and self.headers.get("If-Range") in (None, page.etag):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start and start >= len(page.data):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(page.data)}")
            self.end_headers()
            return
        body = page.data[start:] if page.status == 200 else b""
        self.send_response(206 if start else page.status)
        if start:
            self.send_header(
                "Content-Range", f"bytes {start}-{len(page.data) - 1}/{len(page.data)}"
            )
        if page.etag:
            self.send_header("ETag", page.etag)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        stall, page.stall = page.stall, None
        if stall is not None:
            half = len(body) // 2
            self.wfile.write(body[:half])
            stall.wait()
            with suppress(ConnectionError):  # the client may have left
                self.wfile.write(body[half:])
            return
        self.wfile.write(body[: page.drops.pop(0)] if page.drops else body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running_server() -> Iterator[Server]:
    """A server on this machine, without pages."""
    pages: dict[str, Page] = {}
    requests: list[tuple[str, str | None]] = []
    handler = type("Handler", (_Handler,), {"pages": pages, "requests": requests})
    web = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=web.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield Server(f"http://127.0.0.1:{web.server_port}", pages, requests)
    web.shutdown()
    web.server_close()

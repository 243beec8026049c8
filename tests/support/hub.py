#!/usr/bin/env python3
"""A stand-in of the Hub's HTTP interface on the loopback, as far as huggingface_hub's uploads use it.

    hub.py DIR TOKEN: listens on a free port, which it writes to DIR/port; stops when its standard input ends.

What arrives for ORG/NAME lies in DIR/ORG/NAME afterwards: files/ as a commit put them together, created.json (the request that
made the repository), commits (one line each). Every request to the interface must carry TOKEN; uploads must have the bytes that
were announced. What is wrong is refused and noted in DIR/faults. The owner's name chooses how the Hub behaves: status401 (or any
other status) answers requests to create, drops... closes the connection in the middle of a file, slow... never ends receiving one
(both make DIR/OWNER.begun then), parts takes files in parts.
"""
import base64
import hashlib
import json
import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT, TOKEN = Path(sys.argv[1]), sys.argv[2]
PART = 20000
BLOBS = {}  # oid -> bytes, or {part number: bytes} while it comes in parts
SIZES = {}  # oid -> announced size
LOCK = threading.Lock()


class Refused(Exception):
    def __init__(self, status, message, code=None):
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {})}


class Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    routes = []

    def log_message(self, *_):
        pass

    def handle_one(self):
        try:
            path = self.path.split("?")[0]
            for method, pattern, action in self.routes:
                found = re.fullmatch(pattern, path)
                if method == self.command and found:
                    return action(self, **found.groupdict())
            raise Refused(404, f"no such address {self.command} {path}")
        except Refused as refused:
            if refused.status == 400:
                with open(ROOT / "faults", "a") as out:
                    out.write(f"{refused}\n")
            self.answer({"error": str(refused)}, refused.status, refused.headers)

    do_GET = do_HEAD = do_POST = do_PUT = handle_one

    def answer(self, value, status=200, headers=None):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        if status >= 400:
            self.close_connection = True
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def require_token(self):
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refused(401, "Invalid username or password.")

    @property
    def here(self):
        return f"http://{self.headers['Host']}"


def route(method, pattern):
    def register(action):
        Hub.routes.append((method, pattern, action))
        return action

    return register


REPO = r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)"
REVISION = r"(?P<revision>[\w.-]+)"
OID = r"(?P<oid>[0-9a-f]{64})"


def place_of(owner, name):
    place = ROOT / owner / name
    if not (place / "created.json").exists():
        raise Refused(404, "Repository not found")
    return place


@route("GET", "/api/whoami-v2")
def whoami(hub):
    hub.require_token()
    hub.answer({"type": "user", "name": "tester", "auth": {"accessToken": {"role": "write"}}})


@route("POST", "/api/repos/create")
def create(hub):
    request = json.loads(hub.body())
    hub.require_token()
    owner, name = request.get("organization") or "tester", request["name"]
    status = re.fullmatch(r"status(\d+)", owner)
    if status:
        raise Refused(int(status[1]), f"answered with {status[1]}, as asked")
    place = ROOT / owner / name
    if (place / "created.json").exists():
        return hub.answer({"error": "You already created this model repo", "url": f"{hub.here}/{owner}/{name}"}, 409)
    place.mkdir(parents=True)
    (place / "created.json").write_text(json.dumps(request))
    hub.answer({"url": f"{hub.here}/{owner}/{name}", "name": f"{owner}/{name}"})


@route("POST", "/api/validate-yaml")
def validate(hub):
    """Of a model card; a mirror that knows no such address is one where the file "no_cards" is."""
    if (ROOT / "no_cards").exists():
        raise Refused(404, "no such address POST /api/validate-yaml")
    if not json.loads(hub.body())["content"].startswith("---\n"):
        raise Refused(400, "a card without its head")
    hub.answer({"errors": [], "warnings": []})


@route("POST", f"/api/models/{REPO}/branch/{REVISION}")
def branch(hub, owner, name, revision):
    hub.body()
    hub.require_token()
    (place_of(owner, name) / f"branch-{revision}").touch()
    hub.answer({})


@route("GET", f"/api/models/{REPO}(?:/revision/{REVISION})?")
def info(hub, owner, name, revision):
    hub.require_token()
    if revision not in (None, "main") and not (place_of(owner, name) / f"branch-{revision}").exists():
        raise Refused(404, f"Revision {revision} not found", "RevisionNotFound")
    place_of(owner, name)
    hub.answer({"id": f"{owner}/{name}", "sha": "0" * 40, "siblings": [], "private": False, "tags": []})


@route("POST", f"/api/models/{REPO}/preupload/{REVISION}")
def preupload(hub, owner, name, revision):
    request = json.loads(hub.body())
    hub.require_token()
    place_of(owner, name)
    is_large = lambda file: file["path"].endswith(".safetensors")
    hub.answer({"files": [{"path": file["path"], "uploadMode": "lfs" if is_large(file) else "regular", "shouldIgnore": False,
                           "oid": None} for file in request["files"]]})


def upload_action(hub, owner, oid, size):
    address = f"{hub.here}/blobs/{owner}/{oid}"
    if owner != "parts":
        return {"href": address}
    BLOBS[oid] = {}
    n_parts = -(-size // PART)
    parts = {str(n + 1): f"{address}/{n + 1}" for n in range(n_parts)}
    return {"href": f"{address}/complete", "header": {"chunk_size": str(PART), **parts}}


@route("POST", rf"/{REPO}\.git/info/lfs/objects/batch")
def batch(hub, owner, name):
    request = json.loads(hub.body())
    hub.require_token()
    place_of(owner, name)
    objects = []
    with LOCK:
        for item in request["objects"]:
            SIZES[item["oid"]] = item["size"]
            actions = {"upload": upload_action(hub, owner, item["oid"], item["size"]), "verify": {"href": f"{hub.here}/verify"}}
            objects.append({"oid": item["oid"], "size": item["size"], "authenticated": True, "actions": actions})
    hub.answer({"transfer": "multipart" if owner == "parts" else "basic", "objects": objects})


def keep(oid, body):
    if len(body) != SIZES.get(oid) or hashlib.sha256(body).hexdigest() != oid:
        raise Refused(400, f"{oid}: {len(body)} bytes are not what was announced")
    with LOCK:
        BLOBS[oid] = body


@route("PUT", f"/blobs/(?P<owner>[^/]+)/{OID}")
def put(hub, owner, oid):
    if re.match("drops|slow", owner):
        hub.rfile.read(100)
        (ROOT / f"{owner}.begun").touch()
        if owner.startswith("slow"):
            time.sleep(60)
        hub.close_connection = True
        return hub.connection.close()
    keep(oid, hub.body())
    hub.answer({}, headers={"ETag": oid})


@route("PUT", rf"/blobs/(?P<owner>[^/]+)/{OID}/(?P<part>\d+)")
def put_part(hub, owner, oid, part):
    body = hub.body()
    if len(body) > PART:
        raise Refused(400, f"part {part} of {oid} has {len(body)} bytes")
    with LOCK:
        BLOBS[oid][int(part)] = body
    hub.answer({}, headers={"ETag": f"etag-{part}"})


@route("POST", f"/blobs/(?P<owner>[^/]+)/{OID}/complete")
def complete(hub, owner, oid):
    parts = json.loads(hub.body())["parts"]
    if [part["etag"] for part in parts] != [f"etag-{n + 1}" for n in range(len(BLOBS[oid]))]:
        raise Refused(400, f"{oid}: completed with other parts than were received")
    keep(oid, b"".join(BLOBS[oid][n + 1] for n in range(len(parts))))
    hub.answer({"success": True})


@route("POST", "/verify")
def verify(hub):
    request = json.loads(hub.body())
    hub.require_token()
    if not isinstance(BLOBS.get(request["oid"]), bytes) or len(BLOBS[request["oid"]]) != request["size"]:
        raise Refused(400, f"{request['oid']} is verified before it is there")
    hub.answer({})


def committed_bytes(line):
    value = line["value"]
    if line["key"] == "file":
        return base64.b64decode(value["content"])
    blob = BLOBS.get(value["oid"])
    if not isinstance(blob, bytes) or len(blob) != value["size"]:
        raise Refused(400, f"{value['path']} is committed but {value['oid']} was not received")
    return blob


@route("POST", f"/api/models/{REPO}/commit/{REVISION}")
def commit(hub, owner, name, revision):
    lines = [json.loads(line) for line in hub.body().splitlines() if line.strip()]
    hub.require_token()
    place = place_of(owner, name)
    for line in lines:
        if line["key"] in ("file", "lfsFile"):
            target = place / ("files" if revision == "main" else f"files-{revision}") / line["value"]["path"]
            if ".." in target.parts:
                raise Refused(400, f"{target} leaves the repository")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(committed_bytes(line))
    with open(place / "commits", "a") as out:
        out.write(json.dumps(lines[0]) + "\n")
    oid = hashlib.sha1(repr(lines).encode()).hexdigest()
    hub.answer({"success": True, "commitUrl": f"{hub.here}/{owner}/{name}/commit/{oid}", "commitOid": oid, "hookOutput": ""})


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (ROOT / "port.part").write_text(str(server.server_address[1]))
    os.rename(ROOT / "port.part", ROOT / "port")
    sys.stdin.read()


main()

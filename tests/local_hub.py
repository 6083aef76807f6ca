"""A small stand-in for the Hugging Face hub on 127.0.0.1: the few endpoints that huggingface_hub's own client asks."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_for_tests"


class LocalHub(ThreadingHTTPServer):
    """Keeps repositories in memory; every commit is a whole tree."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.private: dict[str, bool] = {}
        self.commits: dict[str, dict[str, dict[str, bytes]]] = {}  # repository → commit → path → content
        self.fetched: list[str] = []  # 'OWNER/NAME/path' whose content was asked for
        self.refuse_head = ""  # what validating a card's head answers

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def environment(self, home: str) -> dict[str, str]:
        """Of a process that takes this for the hub."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": home,
            "HF_TOKEN": TOKEN,
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }

    def newest(self, name: str) -> str:
        return list(self.commits[name])[-1]

    def files(self, name: str) -> dict[str, bytes]:
        return self.commits[name][self.newest(name)]

    def __enter__(self) -> LocalHub:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: LocalHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, content: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def missing(self, code: str) -> None:
        self.answer({"error": code}, 404, {"X-Error-Code": code, "X-Error-Message": code})

    # --- writing --------------------------------------------------------------------------------------------------

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer({"error": "Invalid username or password."}, 401)
        elif path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
            exists = name in self.server.private
            self.server.private.setdefault(
                name, asked.get("visibility", "private" if asked.get("private") else "public") == "private"
            )
            self.server.commits.setdefault(name, {"0" * 40: {".gitattributes": b""}})
            self.answer({"url": f"{self.server.url}/{name}", "id": name}, 409 if exists else 200)
        elif path == "/api/validate-yaml":
            errors = [{"message": self.server.refuse_head}] if self.server.refuse_head else []
            self.answer({"errors": errors, "warnings": []}, 400 if errors else 200)
        elif match := re.fullmatch(r"/api/models/(.+)/preupload/.+", path):
            files = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                     for file in json.loads(body)["files"]]  # fmt: skip
            self.answer({"files": files})
        elif match := re.fullmatch(r"/api/models/(.+)/commit/.+", path):
            self.commit(match.group(1), body)
        else:
            self.missing("EntryNotFound")

    def commit(self, name: str, body: bytes) -> None:
        tree = dict(self.server.files(name))
        for line in body.splitlines():
            change = json.loads(line)
            value = change["value"]
            if change["key"] == "file":
                tree[value["path"]] = base64.b64decode(value["content"])
            elif change["key"] == "deletedFile":
                del tree[value["path"]]
        sha = hashlib.sha1(body).hexdigest()
        self.server.commits[name][sha] = tree
        self.answer({"commitUrl": f"{self.server.url}/{name}/commit/{sha}", "commitOid": sha})

    # --- reading --------------------------------------------------------------------------------------------------

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if match := re.fullmatch(r"/api/models/(.+?)/(revision|tree)/([^/]+)", path):
            self.describe(*match.groups())
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)", path):
            self.describe(match.group(1), "revision", "main")
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.resolve(*match.groups())
        else:
            self.missing("EntryNotFound")

    do_HEAD = do_GET

    def tree(self, name: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """The commit and its files; says itself what is not there."""
        if name not in self.server.commits:
            self.missing("RepoNotFound")
            return None
        sha = self.server.newest(name) if revision == "main" else revision
        if sha not in self.server.commits[name]:
            self.missing("RevisionNotFound")
            return None
        return sha, self.server.commits[name][sha]

    def describe(self, name: str, what: str, revision: str) -> None:
        there = self.tree(name, revision)
        if there is None:
            return
        sha, files = there
        if what == "revision":
            siblings = [{"rfilename": path} for path in files]
            self.answer(
                {"id": name, "sha": sha, "siblings": siblings, "private": self.server.private[name], "tags": []}
            )
            return
        listed = [{"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                  for path, content in files.items()]  # fmt: skip
        self.answer(listed)

    def resolve(self, name: str, revision: str, path: str) -> None:
        there = self.tree(name, revision)
        if there is None:
            return
        sha, files = there
        if path not in files:
            self.missing("EntryNotFound")
            return
        if self.command == "GET":
            self.server.fetched.append(f"{name}/{path}")
        self.answer(files[path], headers={"X-Repo-Commit": sha, "ETag": f'"{hashlib.sha1(files[path]).hexdigest()}"'})

"""A home with sessions of one project, a store of them, and a way to ask."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unspool.mcp.request import ToolRequest
from unspool.mcp.scope import Caller, ProjectScope
from unspool.mcp.tokens import estimate
from unspool.mcp.tool_table import call_tool
from unspool.redact import Redactor
from unspool.store import Store
from unspool.testing import ClaudeLog, call

from ..store.contents import new_store, synced

REJECTED = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\n"  # noqa: E501
_MORE = re.compile(r'\nMore: call (\w+) again with the same arguments and cursor="([^"]+)"\Z')
_QUOTE = re.compile(r"<quote ([0-9a-f]{6})>\n(.*?)\n</quote \1>", re.DOTALL)


class ProjectLog(ClaudeLog):
    """A session that works in a folder."""

    def __init__(self, session: str, folder: Path | str) -> None:
        super().__init__(session)
        self._folder = str(folder)

    def line(self, kind: str, name: str | None, *args: Any, **fields: Any) -> str:
        # The ids of lines differ from those of other sessions: one with the same lines would be a fork.
        own = name or f"{self.session} {len(self.lines)}"
        return super().line(kind, own, *args, cwd=self._folder, **fields)

    def reject(self, id: str, reason: str) -> None:
        """A person rejects a call."""
        self.result(id, f"{REJECTED}{reason}", error=True, toolUseResult="User rejected tool use")


def typical_log(session: str, folder: Path | str) -> ProjectLog:
    """A session in which a file is read and changed, a command is rejected, and something is found out."""
    log = ProjectLog(session, folder)
    log.user(f"Why do the lighthouse tests fail in {session}?")
    log.model("I read the parser first.", call("read", "Read", file_path=f"{folder}/src/parser.py"))
    log.result("read", "def parse(line): ...")
    edit = {"file_path": f"{folder}/src/parser.py", "old_string": "split()", "new_string": "split('#')[0]"}
    log.model(call("edit", "Edit", **edit))
    log.result("edit", "The file was updated.")
    log.model(call("push", "Bash", command="git push --force"))
    log.reject("push", "never force-push, open a pull request")
    log.user("Go on without pushing.")
    log.model("The lamp was never lit: the comment was part of the value. All tests pass now.")
    return log


class Asked:
    """Asks the tools about a store, as a server does."""

    def __init__(
        self, store: Store, folder: Path | str | None, *callers: Caller, redactor: Redactor | None = None
    ) -> None:
        self._store = store
        self._scope = ProjectScope(None if folder is None else str(folder))
        self._callers = callers
        self._redactor = redactor or Redactor(b"key")

    def __call__(self, tool: str, /, **arguments: Any) -> str:
        """One answer; it keeps its budget."""
        with self._store.snapshot():
            request = ToolRequest(self._store, self._scope, self._callers, self._redactor)
            text = call_tool(request, tool, arguments)
        assert estimate(text) <= arguments.get("budget", 2000), (tool, arguments)
        return text

    def pages(self, tool: str, /, **arguments: Any) -> Iterator[str]:
        """All answers, each continued with its cursor."""
        seen: set[str] = set()
        while True:
            text = self(tool, **arguments)
            yield text
            found = _MORE.search(text)
            if found is None:
                return
            assert found[1] == tool
            assert found[2] not in seen, "no progress"
            seen.add(found[2])
            arguments["cursor"] = found[2]


def quotations(answer: str) -> list[str]:
    """What an answer quotes."""
    return [match[2] for match in _QUOTE.finditer(answer)]


def own_words(answer: str) -> str:
    """What an answer says in words of the server, without quotations and strings."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', "", _QUOTE.sub("", answer))


def store_of(path: Path, *homes: Path) -> Store:
    """A store with the sessions of some homes."""
    store = new_store(path)
    synced(store, *homes)
    return store

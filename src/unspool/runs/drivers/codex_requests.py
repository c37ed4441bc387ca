"""What Codex asks a person, in the words all drivers share, and what a decision is in Codex's words.

Codex has no field for the reason of a refusal and no way to change what was asked for; its driver sends the reason as
a message.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ...agents import AGENTS
from ...core import model as m
from ..protocol import Choice, Decision, Option, PermissionRequest, Verdict
from .jsonrpc import Params, RequestId

ALL_VERDICTS: tuple[Verdict, ...] = ("allow", "allow_session", "deny", "deny_stop")
WITHOUT_SESSION: tuple[Verdict, ...] = ("allow", "deny", "deny_stop")
_DECISIONS = {"allow": "accept", "allow_session": "acceptForSession", "deny": "decline", "deny_stop": "cancel"}
_ACTIONS = {"allow": "accept", "allow_session": "accept", "deny": "decline", "deny_stop": "cancel"}
_LONGEST_TITLE = 200


class Request(NamedTuple):
    """A request of Codex that waits for an answer."""

    id: RequestId
    method: str
    params: Params
    item: Params = {}
    """What it is about, as far as Codex told: an edit with its changes, or a call of a server's tool."""

    @property
    def item_id(self) -> str | None:
        """The id of what it is about: that of the call, but for what a script asks."""
        return text_at(self.params, "itemId") or text_at(self.item, "id")

    @property
    def thread(self) -> str:
        """The thread that asks: the conversation itself, or a sub-agent."""
        return text_at(self.params, "threadId") or ""

    @property
    def turn(self) -> str | None:
        """The turn that waits."""
        return text_at(self.params, "turnId")

    @property
    def is_in_script(self) -> bool:
        """Models in code mode call tools from scripts; Codex then makes up an id, and its files name the script's."""
        return (self.item_id or "").startswith("exec-")

    @property
    def can_be_cancelled(self) -> bool:
        """A refusal can end the turn by itself."""
        return self.method in ("item/commandExecution/requestApproval", "item/fileChange/requestApproval")


def text_at(params: Params, name: str) -> str | None:
    """A field where it is text."""
    value = params.get(name)
    return value if isinstance(value, str) else None


def list_at(params: Params, name: str) -> list[Params]:
    """The objects of a field where it is a list."""
    value = params.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def object_at(params: Params, name: str) -> Params:
    """A field where it is an object; an empty one where it is not."""
    value = params.get(name)
    return value if isinstance(value, dict) else {}


# --- what is asked ---------------------------------------------------------------------------------------------------


def asked_of(id: str, request: Request, subagent: str | None) -> PermissionRequest | None:
    """What a request asks, or None for one that no person can answer."""
    make = _MAKERS.get(request.method)
    if make is None:
        return None
    asked = make(id, request.params, request.item)
    asked.call_id = request.item_id
    asked.reason = text_at(request.params, "reason")
    asked.subagent = subagent
    asked.takes_reason = True
    return asked


def _command(id: str, params: Params, item: Params) -> PermissionRequest:  # noqa: ARG001 - the request says it all
    host = text_at(object_at(params, "networkApprovalContext"), "host")
    command = inner_command(text_at(params, "command") or "")
    given = {"cmd": command, "workdir": text_at(params, "cwd")}
    title = f"Connect to {host}" if host else command
    return PermissionRequest(
        id=id, kind="permission" if host else "command", tool="exec_command", title=_line(title),
        action=_describe("exec_command", given), verdicts=ALL_VERDICTS,
    )  # fmt: skip


def inner_command(command: str) -> str:
    """What runs inside the shell that Codex puts around every command."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words[2] if len(words) == 3 and words[1] in ("-lc", "-c") else command


def _edit(id: str, params: Params, item: Params) -> PermissionRequest:
    changes = list_at(item, "changes")
    paths = [text_at(change, "path") or "?" for change in changes]
    root = text_at(params, "grantRoot")
    action = _describe("apply_patch", patch_of(changes))
    if action.diff is not None:
        action.diff = "".join(map(_unified, changes))  # With the numbers of lines, which a patch of Codex lacks.
    title = ", ".join(paths) or (f"Write in {root}" if root else "Change files")
    return PermissionRequest(
        id=id, kind="edit", tool="apply_patch", title=_line(title), action=action, verdicts=ALL_VERDICTS
    )


def patch_of(changes: list[Params]) -> str:
    """The changes as the patch that the model may have written."""
    lines = ["*** Begin Patch"]
    for change in changes:
        kind = text_at(object_at(change, "kind"), "type") or "update"
        lines.append(f"*** {kind.capitalize()} File: {text_at(change, 'path')}")
        if moved := text_at(object_at(change, "kind"), "move_path"):
            lines.append(f"*** Move to: {moved}")
        body = (text_at(change, "diff") or "").splitlines()
        if kind == "add":
            lines += [f"+{line}" for line in body]
        elif kind == "update":
            lines += ["@@" if line.startswith("@@") else line for line in body]
    return "\n".join([*lines, "*** End Patch"])


def _unified(change: Params) -> str:
    kind = text_at(object_at(change, "kind"), "type")
    path = text_at(change, "path")
    body = (text_at(change, "diff") or "").splitlines()
    if kind == "add":
        body = [f"@@ -0,0 +1,{len(body)} @@", *(f"+{line}" for line in body)]
    elif kind == "delete":
        body = [f"@@ -1,{len(body)} +0,0 @@", *(f"-{line}" for line in body)]
    old = "/dev/null" if kind == "add" else path
    new = "/dev/null" if kind == "delete" else text_at(object_at(change, "kind"), "move_path") or path
    return "\n".join([f"--- {old}", f"+++ {new}", *body]) + "\n"


def _permission(id: str, params: Params, item: Params) -> PermissionRequest:  # noqa: ARG001 - the request says it all
    wanted = object_at(params, "permissions")
    title = "More permissions: " + ", ".join(sorted(key for key, value in wanted.items() if value))
    return PermissionRequest(
        id=id, kind="permission", tool="request_permissions", title=_line(title),
        action=_describe("request_permissions", wanted), verdicts=ALL_VERDICTS,
    )  # fmt: skip


def _question(id: str, params: Params, item: Params) -> PermissionRequest:  # noqa: ARG001 - the request says it all
    questions = list_at(params, "questions")
    choices = [
        Choice(
            question=text_at(each, "question") or "",
            header=text_at(each, "header") or "",
            options=[
                Option(text_at(option, "label") or "", text_at(option, "description") or "")
                for option in list_at(each, "options")
            ],
        )
        for each in questions
    ]
    action = _describe("request_user_input", {"questions": questions})
    action.questions = [m.Question(each.question, [option.label for option in each.options]) for each in choices]
    title = choices[0].question if choices else "A question"
    return PermissionRequest(
        id=id, kind="question", tool="request_user_input", title=_line(title), action=action, choices=choices,
        verdicts=WITHOUT_SESSION,
    )  # fmt: skip


def _of_server(id: str, params: Params, item: Params) -> PermissionRequest:
    """A server of tools asks for a call, or for something to be filled in, or opened."""
    server = text_at(params, "serverName") or "a server"
    about = object_at(params, "_meta")
    form = object_at(object_at(params, "requestedSchema"), "properties")
    choices = [_field(name, field) for name, field in form.items() if isinstance(field, dict)]
    message = text_at(params, "message") or text_at(params, "title") or f"{server} asks"
    given = {"url": params["url"]} if "url" in params else object_at(about, "tool_params") or about
    lasting = about.get("persist")
    can_last = "session" in lasting if isinstance(lasting, list | str) else False
    return PermissionRequest(
        id=id, kind="question" if choices else "tool", tool=text_at(item, "tool") or server, title=_line(message),
        action=_describe(server, given), choices=choices, verdicts=ALL_VERDICTS if can_last else WITHOUT_SESSION,
    )  # fmt: skip


def _field(name: str, field: Params) -> Choice:
    names = field.get("enum")
    options = [Option(str(each)) for each in names] if isinstance(names, list) else []
    if field.get("type") == "boolean":
        options = [Option("true"), Option("false")]
    return Choice(question=name, header=text_at(field, "title") or "", options=options)


_MAKERS: dict[str, Callable[[str, Params, Params], PermissionRequest]] = {
    "item/fileChange/requestApproval": _edit,
    "item/commandExecution/requestApproval": _command,
    "item/permissions/requestApproval": _permission,
    "item/tool/requestUserInput": _question,
    "mcpServer/elicitation/request": _of_server,
}


def _describe(tool: str, given: object) -> m.Action:
    return AGENTS["codex"].describe(tool, msgspec.Raw(msgspec.json.encode(given)))


def _line(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), text.strip())
    return first if len(first) <= _LONGEST_TITLE else first[: _LONGEST_TITLE - 1] + "…"


# --- what is answered ------------------------------------------------------------------------------------------------


def answer_of(request: Request, decision: Decision) -> Params:
    """A decision as Codex takes it."""
    is_allowed = decision.verdict in ("allow", "allow_session")
    if request.method == "item/tool/requestUserInput":
        return {"answers": _answers(request.params, decision) if is_allowed else {}}
    if request.method == "item/permissions/requestApproval":
        scope = "session" if decision.verdict == "allow_session" else "turn"
        return {"permissions": object_at(request.params, "permissions") if is_allowed else {}, "scope": scope}
    if request.method == "mcpServer/elicitation/request":
        answer: Params = {"action": _ACTIONS[decision.verdict], "content": None}
        if is_allowed:
            answer["content"] = _filled_in(request.params, decision)
        if decision.verdict == "allow_session":
            answer["_meta"] = {"persist": "session"}
        return answer
    return {"decision": _DECISIONS[decision.verdict]}


def _answers(params: Params, decision: Decision) -> Params:
    """What was chosen, by the ids that Codex gave its questions."""
    found = {}
    for each in list_at(params, "questions"):
        chosen = decision.answers.get(text_at(each, "question") or "")
        if chosen is not None:
            found[text_at(each, "id") or ""] = {"answers": chosen}
    return found


def _filled_in(params: Params, decision: Decision) -> Params:
    form = object_at(object_at(params, "requestedSchema"), "properties")
    return {name: _typed(form[name], chosen) for name, chosen in decision.answers.items() if name in form and chosen}


def _typed(field: Any, chosen: list[str]) -> Any:
    kind = field.get("type") if isinstance(field, dict) else None
    if kind == "array":
        return chosen
    if kind == "boolean":
        return chosen[0] == "true"
    if kind in ("integer", "number"):
        try:
            return int(chosen[0]) if kind == "integer" else float(chosen[0])
        except ValueError:
            return chosen[0]
    return chosen[0]

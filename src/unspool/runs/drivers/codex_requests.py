"""Translates requests of Codex into the form that all drivers share, and answers back.

Codex has no field for the reason of a denial and no way to change the input of a request; its driver sends the reason
as a message.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ...agents import AGENTS
from ...core import model as m
from ...core.proposed_actions import ProposedEdit
from ..protocol import Answer, Choice, Detail, Option, PermissionRequest
from .jsonrpc import Params, RequestId
from .request_details import ALL_VERDICTS, WITHOUT_SESSION, details_of

_DECISIONS = {"allow": "accept", "allow_session": "acceptForSession", "deny": "decline", "deny_stop": "cancel"}
_ELICITATION_ACTIONS = {"allow": "accept", "allow_session": "accept", "deny": "decline", "deny_stop": "cancel"}
_MAX_TITLE = 200
_SHELLS = frozenset(("bash", "sh", "zsh", "dash"))
_ENVELOPE = frozenset((
    "threadId", "turnId", "itemId", "approvalId", "kind", "reason", "startedAtMs", "availableDecisions",
    "proposedExecpolicyAmendment", "proposedNetworkPolicyAmendments",
))  # fmt: skip
"""Parameters that identify or explain a request, or offer answers that are not supported. All others are shown."""
_SHOWN_FIELDS = {
    "item/fileChange/requestApproval": {"changes[].diff"},
    "item/tool/requestUserInput": {
        "questions[].question", "questions[].header", "questions[].options[].label",
        "questions[].options[].description", "questions[].id",
    },
    "mcpServer/elicitation/request": {"message"},
}  # fmt: skip
_UNTIL = "Until Codex exits"
_IN_CONVERSATION = "In this conversation, until it is cleared or Codex exits"
"""Codex stores what was allowed for commands and file changes in the conversation that asked. Sub-agents have their own
conversations, and a resumed conversation starts without it."""
_IN_SUBAGENT = "In this sub-agent, until it ends"


class CodexRequest(NamedTuple):
    """A request of Codex that is waiting for an answer."""

    id: RequestId
    method: str
    params: Params
    item: Params = {}
    """The item that it is about, if Codex has reported it: an edit with its changes, or a call of an MCP tool."""

    @property
    def item_id(self) -> str | None:
        """The id of the item that it is about: the id of the tool call, except for requests of a script."""
        return text_at(self.params, "itemId") or text_at(self.item, "id")

    @property
    def thread(self) -> str:
        """The thread that sent it: the main conversation or a sub-agent."""
        return text_at(self.params, "threadId") or ""

    @property
    def turn(self) -> str | None:
        """The turn that is waiting."""
        return text_at(self.params, "turnId")

    @property
    def is_in_script(self) -> bool:
        """Whether it comes from a script of a model in code mode. The session file has only the call of the script."""
        return (self.item_id or "").startswith("exec-")

    @property
    def can_be_cancelled(self) -> bool:
        """Whether a denial can end the turn by itself."""
        return self.method in ("item/commandExecution/requestApproval", "item/fileChange/requestApproval")

    @property
    def is_supported(self) -> bool:
        """Whether a person can answer it."""
        return self.method in _BUILDERS


def text_at(params: Params, name: str) -> str | None:
    """Return a field if it is text."""
    value = params.get(name)
    return value if isinstance(value, str) else None


def list_at(params: Params, name: str) -> list[Params]:
    """Return the objects in a field if it is a list."""
    value = params.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def object_at(params: Params, name: str) -> Params:
    """Return a field if it is an object, otherwise an empty one."""
    value = params.get(name)
    return value if isinstance(value, dict) else {}


# --- requests --------------------------------------------------------------------------------------------------------


def build_request(id: str, request: CodexRequest, subagent: str | None) -> PermissionRequest:
    """Build a supported request in the form in which it is shown."""
    shown = _BUILDERS[request.method](id, request.params, request.item)
    shown.call_id = request.item_id
    shown.reason = text_at(request.params, "reason")
    shown.subagent = subagent
    if subagent is not None and shown.session_rule is not None:
        shown.session_rule = shown.session_rule.replace(_IN_CONVERSATION, _IN_SUBAGENT)
    shown.takes_reason = True
    shown.details = _details(request, shown)
    return shown


def _details(request: CodexRequest, shown: PermissionRequest) -> list[Detail]:
    """Return all other information about the request."""
    given = {name: value for name, value in request.params.items() if name not in _ENVELOPE and value is not None}
    if shown.kind == "command" and shown.action.command is not None:
        shell, _ = unwrapped(given.pop("command", ""))
        given |= {"shell": shell} if shell else {}
    if request.item.get("changes"):
        given["changes"] = request.item["changes"]
    return details_of(given, _SHOWN_FIELDS.get(request.method, ()))


def _command(id: str, params: Params, item: Params) -> PermissionRequest:  # noqa: ARG001 - the params have everything
    host = text_at(object_at(params, "networkApprovalContext"), "host")
    command = inner_command(text_at(params, "command") or "")
    input = {"cmd": command, "workdir": text_at(params, "cwd")}
    title = f"Connect to {host}" if host else command
    return PermissionRequest(
        id=id,
        kind="permission" if host else "command",
        tool="exec_command",
        title=_line(title),
        action=_describe("exec_command", input),
        verdicts=ALL_VERDICTS,
        session_rule=f"{_UNTIL}, it no longer asks about connections to {host}."
        if host
        else f"{_IN_CONVERSATION}, it no longer asks about this command in this folder, with the same shell and the "
        "same permissions. Spaces and quotes may differ.",
    )


def inner_command(command: str) -> str:
    """Return the command inside the shell that Codex wraps around every command."""
    return unwrapped(command)[1]


def unwrapped(command: str) -> tuple[str, str]:
    """Return the shell that Codex wraps around every command, and the command inside.

    Only known shells are unwrapped: another program may do anything with its third argument.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return "", command
    if len(words) != 3 or words[1] not in ("-lc", "-c") or words[0].rpartition("/")[2] not in _SHELLS:
        return "", command
    return f"{words[0]} {words[1]}", words[2]


def _edit(id: str, params: Params, item: Params) -> PermissionRequest:
    changes = list_at(item, "changes")
    paths = [text_at(change, "path") or "?" for change in changes]
    root = text_at(params, "grantRoot")
    action = _describe("apply_patch", patch_of(changes))
    if action.diff is not None:
        action.diff = "".join(map(_unified, changes))  # With line numbers, which Codex's patch format lacks.
    title = ", ".join(paths) or (f"Write in {root}" if root else "Change files")
    moved = [path for change in changes if (path := text_at(object_at(change, "kind"), "move_path"))]
    where = f"any file in {root}" if root else f"any change of {', '.join(paths) or 'these files'}"
    return PermissionRequest(
        id=id,
        kind="edit",
        tool="apply_patch",
        title=_line(title),
        action=action,
        verdicts=ALL_VERDICTS,
        session_rule=f"{_IN_CONVERSATION}, it no longer asks about {where}.",
        # Codex made the diff from the files on disk. The paths are enough to detect later changes of the files.
        edits=[ProposedEdit(path=path) for path in paths + moved],
    )


def patch_of(changes: list[Params]) -> str:
    """Return the changes as a patch in the format that the model writes."""
    lines = ["*** Begin Patch"]
    for change in changes:
        kind = text_at(object_at(change, "kind"), "type") or "update"
        lines.append(f"*** {kind.capitalize()} File: {text_at(change, 'path')}")
        if moved := text_at(object_at(change, "kind"), "move_path"):
            lines.append(f"*** Move to: {moved}")
        body = _lines(text_at(change, "diff"))
        if kind == "add":
            lines += [f"+{line}" for line in body]
        elif kind == "update":
            lines += ["@@" if line.startswith("@@") else line for line in body]
    return "\n".join([*lines, "*** End Patch"])


def _lines(diff: str | None) -> list[str]:
    """Split a diff or a file into lines at line feeds only."""
    return diff.removesuffix("\n").split("\n") if diff else []


def _unified(change: Params) -> str:
    kind = text_at(object_at(change, "kind"), "type")
    path = text_at(change, "path")
    body = _lines(text_at(change, "diff"))
    if kind == "add":
        body = [f"@@ -0,0 +1,{len(body)} @@", *(f"+{line}" for line in body)]
    elif kind == "delete":
        body = [f"@@ -1,{len(body)} +0,0 @@", *(f"-{line}" for line in body)]
    if kind in ("add", "delete") and not (text_at(change, "diff") or "\n").endswith("\n"):
        body.append("\\ No newline at end of file")
    old = "/dev/null" if kind == "add" else path
    new = "/dev/null" if kind == "delete" else text_at(object_at(change, "kind"), "move_path") or path
    return "\n".join([f"--- {old}", f"+++ {new}", *body]) + "\n"


def _permission(id: str, params: Params, item: Params) -> PermissionRequest:  # noqa: ARG001 - the params have everything
    permissions = object_at(params, "permissions")
    title = "Additional permissions: " + ", ".join(sorted(key for key, value in permissions.items() if value))
    return PermissionRequest(
        id=id,
        kind="permission",
        tool="request_permissions",
        title=_line(title),
        action=_describe("request_permissions", permissions),
        verdicts=ALL_VERDICTS,
        session_rule="The permissions last until Codex exits, not only until the end of this turn.",
    )


def _question(id: str, params: Params, item: Params) -> PermissionRequest:  # noqa: ARG001 - the params have everything
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
    title = choices[0].question if choices else "Question"
    return PermissionRequest(
        id=id,
        kind="question",
        tool="request_user_input",
        title=_line(title),
        action=action,
        choices=choices,
        verdicts=WITHOUT_SESSION,
    )


def _elicitation(id: str, params: Params, item: Params) -> PermissionRequest:
    """Build the request of an MCP server for a tool call, a form or a page."""
    server = text_at(params, "serverName") or "MCP server"
    about = object_at(params, "_meta")
    form = object_at(object_at(params, "requestedSchema"), "properties")
    choices = [_field(name, field) for name, field in form.items() if isinstance(field, dict)]
    message = text_at(params, "message") or text_at(params, "title") or f"Request of {server}"
    input = {"url": params["url"]} if "url" in params else object_at(about, "tool_params") or about
    scopes = about.get("persist")
    can_allow_session = "session" in scopes if isinstance(scopes, list | str) else False
    return PermissionRequest(
        id=id,
        kind="question" if choices else "tool",
        tool=text_at(item, "tool") or server,
        title=_line(message),
        action=_describe(server, input),
        choices=choices,
        verdicts=ALL_VERDICTS if can_allow_session else WITHOUT_SESSION,
        session_rule=f"{_UNTIL}, it no longer asks about this tool of {server}." if can_allow_session else None,
    )


def _field(name: str, field: Params) -> Choice:
    names = field.get("enum")
    options = [Option(str(each)) for each in names] if isinstance(names, list) else []
    if field.get("type") == "boolean":
        options = [Option("true"), Option("false")]
    return Choice(question=name, header=text_at(field, "title") or "", options=options)


_BUILDERS: dict[str, Callable[[str, Params, Params], PermissionRequest]] = {
    "item/fileChange/requestApproval": _edit,
    "item/commandExecution/requestApproval": _command,
    "item/permissions/requestApproval": _permission,
    "item/tool/requestUserInput": _question,
    "mcpServer/elicitation/request": _elicitation,
}


def _describe(tool: str, input: object) -> m.Action:
    return AGENTS["codex"].describe(tool, msgspec.Raw(msgspec.json.encode(input)))


def _line(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), text.strip())
    return first if len(first) <= _MAX_TITLE else first[: _MAX_TITLE - 1] + "…"


# --- answers ---------------------------------------------------------------------------------------------------------


def build_answer(request: CodexRequest, answer: Answer) -> Params:
    """Return an answer in the form that Codex expects."""
    is_allowed = answer.verdict in ("allow", "allow_session")
    if request.method == "item/tool/requestUserInput":
        return {"answers": _answers(request.params, answer) if is_allowed else {}}
    if request.method == "item/permissions/requestApproval":
        scope = "session" if answer.verdict == "allow_session" else "turn"
        return {"permissions": object_at(request.params, "permissions") if is_allowed else {}, "scope": scope}
    if request.method == "mcpServer/elicitation/request":
        result: Params = {"action": _ELICITATION_ACTIONS[answer.verdict], "content": None}
        if is_allowed:
            result["content"] = _form_content(request.params, answer)
        if answer.verdict == "allow_session":
            result["_meta"] = {"persist": "session"}
        return result
    return {"decision": _DECISIONS[answer.verdict]}


def _answers(params: Params, answer: Answer) -> Params:
    """Return the chosen answers, by the ids of Codex's questions."""
    found = {}
    for each in list_at(params, "questions"):
        chosen = answer.answers.get(text_at(each, "question") or "")
        if chosen is not None:
            found[text_at(each, "id") or ""] = {"answers": chosen}
    return found


def _form_content(params: Params, answer: Answer) -> Params:
    form = object_at(object_at(params, "requestedSchema"), "properties")
    return {name: _typed(form[name], chosen) for name, chosen in answer.answers.items() if name in form and chosen}


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

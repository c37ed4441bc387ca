"""An agent without a model: it speaks Gemini CLI's protocol, writes its session files, and does what a prompt says.

A prompt is a script, a step a line (or parted by `;;`):

    say WORDS            words of the model              think WORDS         its thoughts
    stream N SECONDS     N words, with a pause after each
    clock N SECONDS      the same, each word being the time
    ask COMMAND          ask for a command, and run it   edit PATH TEXT      ask to write a file, and write it
    sleep SECONDS        do nothing; can be interrupted  busy FILE           the same until a file is there, whoever
                                                                         interrupts
    mode NAME            change the mode, as a model can size N              N bytes of words in one message
    noise                print what is no message        fail WORDS          end the turn with an error
    stop REASON          end the turn for a reason       spawn               start a program that outlives it
    crash                end with an error               die                 end as if by kill -9
    close                close the output and live on    hang                never end unless killed

Anything else is answered with `You said: …`. It needs the standard library alone and starts in a few hundredths of a
second, so that many can run at once. Variables change how it behaves: GEMINI_SCRIPTED_NOW names its files by the
present minute, as the real program does (else by one that is long past), GEMINI_SCRIPTED_STUBS leaves an empty file
when a session is loaded, GEMINI_SCRIPTED_LATE tells the past conversation not before it hears something again,
GEMINI_SCRIPTED_OLD knows no loading, modes or models.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

PERMISSION = "session/request_permission"
LONG_AGO = "2026-01-01T00-00"
CONTEXT = "<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.\n</session_context>"
MODES = ("default", "autoEdit", "yolo", "plan")
MODELS = ("auto", "scripted-large", "scripted-small")
OPTIONS = [
    {"optionId": "proceed_always", "name": "Allow for this session", "kind": "allow_always"},
    {"optionId": "proceed_once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "cancel", "name": "Reject", "kind": "reject_once"},
]


class Failed(Exception):  # noqa: N818 - it is no error of ours
    """The turn ends with an error."""


class Stopped(Exception):  # noqa: N818
    """The turn ends for a reason."""


class Wire:
    """Messages in lines; any thread may speak."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[int, Any] = {}
        self._arrived = threading.Condition()
        self._number = 0

    def write(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]

    def update(self, session: str, kind: str, **fields: Any) -> None:
        params = {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}
        self.write({"method": "session/update", "params": params})

    def request(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the client for something and wait."""
        with self._arrived:
            self._number += 1
            number = self._number
        self.write({"id": number, "method": method, "params": params})
        with self._arrived:
            self._arrived.wait_for(lambda: number in self._answers)
            return self._answers.pop(number)

    def settle(self, number: int, result: Any) -> None:
        with self._arrived:
            self._answers[number] = result
            self._arrived.notify_all()


class Log:
    """A session's file."""

    def __init__(self, path: str, session: str) -> None:
        self.path = path
        self.session = session
        self.messages: list[dict[str, Any]] = []
        self._count = 0

    def begin(self, project_hash: str) -> None:
        header = {"sessionId": self.session, "projectHash": project_hash, "kind": "main"}
        self._append({**header, "startTime": moment(), "lastUpdated": moment()})
        self.messages = [self._message("user", [{"text": CONTEXT}])]
        self._append({"$set": {"messages": self.messages, "lastUpdated": moment()}})

    def read(self) -> None:
        """Take up what the file says, as far as its lines are whole."""
        with open(self.path, "rb") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                listed = record.get("$set", {}).get("messages")
                if listed is not None:
                    self.messages = list(listed)
                elif "type" in record:
                    self.messages = [one for one in self.messages if one["id"] != record["id"]] + [record]
        with open(self.path, "rb+") as file:
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")  # A line that was torn by a kill must not spoil the next one.
        self._append({"$set": {"sessionId": self.session}})

    def add(self, kind: str, content: Any, **fields: Any) -> None:
        message = self._message(kind, content, **fields)
        self.messages.append(message)
        self._append(message)
        self._append({"$set": {"lastUpdated": moment()}})

    def forget_from(self, count: int) -> None:
        """Write as the real program does when a turn is stopped: the conversation as it was before."""
        del self.messages[count:]
        self._append({"$set": {"messages": self.messages, "lastUpdated": moment()}})

    def _message(self, kind: str, content: Any, **fields: Any) -> dict[str, Any]:
        self._count += 1
        return {"id": unique(), "timestamp": moment(), "type": kind, "content": content, **fields}

    def _append(self, record: dict[str, Any]) -> None:
        data = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, data)
        finally:
            os.close(handle)


class Turn:
    """One prompt, step by step."""

    def __init__(self, agent: Agent, text: str) -> None:
        self.agent = agent
        self.text = text
        self.cancelled = threading.Event()
        self.words: list[str] = []
        self.calls = 0

    def run(self) -> str:
        """Do what the prompt says; gives why the turn ended."""
        log = self.agent.log
        before = len(log.messages)
        log.add("user", [{"text": self.text}])
        try:
            for step in self.text.replace(";;", "\n").splitlines():
                if self.cancelled.is_set():
                    break
                name, _, rest = step.strip().partition(" ")
                self._step(name, rest)
        except Stopped as stopped:
            self._flush()
            return str(stopped)
        if self.cancelled.is_set():
            if not self.calls:
                log.forget_from(before)
            return "cancelled"
        self._flush()
        return "end_turn"

    def _step(self, name: str, rest: str) -> None:
        step = getattr(self, f"do_{name}", None)
        if step is not None:
            step(rest)
        elif name:
            self.do_say(f"You said: {name} {rest}".strip())

    def _flush(self) -> None:
        if self.words:
            tokens = {"input": 10, "output": 5, "cached": 0, "thoughts": 0, "tool": 0, "total": 15}
            self.agent.log.add("gemini", "".join(self.words), thoughts=[], tokens=tokens, model=self.agent.model)
            self.words = []

    # --- steps ---

    def do_say(self, words: str) -> None:
        self.words.append(words)
        self.agent.chunk("agent_message_chunk", words)

    def do_think(self, words: str) -> None:
        self.agent.chunk("agent_thought_chunk", words)

    def do_stream(self, rest: str) -> None:
        count, pause = rest.split()
        for number in range(int(count)):
            self.do_say(f"{number} ")
            if self.cancelled.wait(float(pause)):
                return

    def do_clock(self, rest: str) -> None:
        count, pause = rest.split()
        for _ in range(int(count)):
            self.do_say(f"at{time.time() * 1000:.0f}. ")
            if self.cancelled.wait(float(pause)):
                return

    def do_size(self, count: str) -> None:
        self.do_say("x" * int(count))

    def do_sleep(self, seconds: str) -> None:
        self.cancelled.wait(float(seconds))

    def do_busy(self, name: str) -> None:
        self.do_say("busy")
        while not os.path.exists(os.path.join(self.agent.folder, name)):
            time.sleep(0.02)

    def do_mode(self, mode: str) -> None:
        self.agent.mode = mode
        self.agent.chunk("agent_message_chunk", f"[MODE_UPDATE] {mode}")

    def do_noise(self, _: str) -> None:
        os.write(1, b"Loaded cached credentials.\n{not json}\n[1, 2]\n")
        os.write(2, b"a warning\n")

    def do_fail(self, words: str) -> None:
        raise Failed(words)

    def do_stop(self, reason: str) -> None:
        raise Stopped(reason)

    def do_spawn(self, _: str) -> None:
        import subprocess

        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        self.do_say(f"spawned {child.pid} ")

    def do_crash(self, _: str) -> None:
        os.write(2, b"\x1b[31mscripted crash\x1b[0m\n")
        os._exit(3)

    def do_die(self, _: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_close(self, _: str) -> None:
        os.close(1)
        time.sleep(600)

    def do_hang(self, _: str) -> None:
        self.agent.is_hanging = True
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        self.do_say("hanging")
        time.sleep(600)

    def do_ask(self, command: str) -> None:
        def run() -> str:
            import subprocess

            with subprocess.Popen(
                command,
                shell=True,
                cwd=self.agent.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as child:
                while child.poll() is None:
                    if self.cancelled.wait(0.02):
                        os.killpg(child.pid, signal.SIGKILL)
                        child.wait()
                        return "Command was cancelled by user before it could complete. There was no output."
                output = child.stdout.read().decode("utf-8", "replace") if child.stdout else ""
            return f"Output: {output or '(empty)'}"

        self._call("run_shell_command", {"command": command}, {"title": command, "kind": "execute"}, run)

    def do_edit(self, rest: str) -> None:
        name, _, text = rest.partition(" ")
        path = os.path.join(self.agent.folder, name)
        old = None
        if os.path.exists(path):
            with open(path) as file:
                old = file.read()

        def run() -> str:
            with open(path, "w") as file:
                file.write(text)
            return f"Wrote {name}."

        shown = {"type": "diff", "path": path, "oldText": old, "newText": text}
        described = {"title": f"Writing to {name}", "kind": "edit", "content": [shown]}
        self._call("write_file", {"file_path": name, "content": text}, described, run)

    def _call(self, tool: str, input: dict[str, Any], described: dict[str, Any], run: Any) -> None:
        self._flush()
        id = f"{tool}__{tool}_{unique()[:8]}_{self.agent.next_call()}"
        if self._may(id, tool, described):
            output = run()
            self.calls += 1
            done = {"id": id, "name": tool, "args": input, "status": "success", "timestamp": moment(),
                    "result": [answer_of(id, tool, output=output)], "resultDisplay": output}  # fmt: skip
            self.agent.log.add("gemini", "", toolCalls=[done], model=self.agent.model)
            self.agent.log.add("user", [answer_of(id, tool, output=output)])
            content = [{"type": "content", "content": {"type": "text", "text": output}}]
            self.agent.wire.update(
                self.agent.session, "tool_call_update", toolCallId=id, status="completed", content=content
            )
        elif not self.cancelled.is_set():
            error = f'Tool "{tool}" was canceled by the user.'
            self.agent.log.add("user", [answer_of(id, tool, error=error)])

    def _may(self, id: str, tool: str, described: dict[str, Any]) -> bool:
        if (
            self.agent.mode == "yolo"
            or tool in self.agent.allowed
            or (tool, self.agent.mode)
            == (
                "write_file",
                "autoEdit",
            )
        ):
            return True
        call = {"toolCallId": id, "status": "pending", "content": [], "locations": [], **described}
        params = {"sessionId": self.agent.session, "options": OPTIONS, "toolCall": call}
        outcome = (self.agent.wire.request(PERMISSION, params) or {}).get("outcome", {})
        if outcome.get("optionId") == "proceed_always":
            self.agent.allowed.add(tool)
        return str(outcome.get("optionId", "")).startswith("proceed")


class Agent:
    """The program: one session, one turn at a time."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.session = ""
        self.folder = os.getcwd()
        self.mode = "default"
        self.model = "auto"
        self.allowed: set[str] = set()
        self.is_hanging = False
        self.is_old = "GEMINI_SCRIPTED_OLD" in os.environ
        self.log = Log("", "")
        self._to_replay: list[dict[str, Any]] = []
        self._turn: Turn | None = None
        self._calls = 0

    def next_call(self) -> int:
        self._calls += 1
        return self._calls

    def chunk(self, kind: str, text: str) -> None:
        self.wire.update(self.session, kind, content={"type": "text", "text": text})

    def serve(self) -> None:
        """Answer until the input is closed."""
        for line in sys.stdin.buffer:
            message = json.loads(line)
            self._replay()
            method = message.get("method")
            if method is None:
                self.wire.settle(message["id"], message.get("result"))
            elif method == "session/cancel":
                if self._turn is not None:
                    self._turn.cancelled.set()
            elif method == "session/prompt":
                text = "\n".join(part.get("text", "") for part in message["params"]["prompt"])
                self._turn = Turn(self, text)
                threading.Thread(target=self._prompt, args=(message["id"], self._turn), daemon=True).start()
            else:
                self._answer(message["id"], method, message.get("params") or {})
        while self.is_hanging:
            time.sleep(1)

    def _prompt(self, number: int, turn: Turn) -> None:
        try:
            self.wire.write({"id": number, "result": {"stopReason": turn.run()}})
        except Failed as failed:
            self.wire.write({"id": number, "error": {"code": 500, "message": str(failed)}})

    def _answer(self, number: int, method: str, params: dict[str, Any]) -> None:
        known = {
            "initialize": self._initialize, "session/new": self._new, "session/load": self._load,
            "session/set_mode": self._set_mode, "session/set_model": self._set_model,
        }  # fmt: skip
        if method not in known or (self.is_old and method not in ("initialize", "session/new")):
            self.wire.write({"id": number, "error": {"code": -32601, "message": "Method not found"}})
            return
        try:
            self.wire.write({"id": number, "result": known[method](params)})
        except Failed as failed:
            error = {"code": -32603, "message": "Internal error", "data": {"details": str(failed)}}
            self.wire.write({"id": number, "error": error})

    def _initialize(self, _: dict[str, Any]) -> dict[str, Any]:
        if self.is_old:
            return {"protocolVersion": 1, "agentCapabilities": {"loadSession": False}}
        info = {"name": "scripted", "version": "0.61.0"}
        return {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": {"loadSession": True}}

    def _new(self, params: dict[str, Any]) -> dict[str, Any]:
        self.folder = params["cwd"]
        self.session = unique()
        self.log = Log(self._path(), self.session)
        self.log.begin(hash_of(self.folder))
        return {"sessionId": self.session, **self._offers()}

    def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        self.folder = params["cwd"]
        self.session = params["sessionId"]
        chats = os.path.dirname(self._path())
        ending = f"-{self.session[:8]}.jsonl"
        files = sorted(name for name in os.listdir(chats) if name.endswith(ending))
        if not files:
            raise Failed("No previous sessions found for this project.")
        self.log = Log(os.path.join(chats, files[0]), self.session)
        if "GEMINI_SCRIPTED_STUBS" in os.environ:
            Log(os.path.join(chats, f"session-{minute()}{ending}"), self.session).begin(hash_of(self.folder))
        self.log.read()
        self._to_replay = list(self.log.messages)
        if "GEMINI_SCRIPTED_LATE" not in os.environ:
            self._replay()
        return self._offers()

    def _replay(self) -> None:
        for message in self._to_replay:
            kind = "user_message_chunk" if message["type"] == "user" else "agent_message_chunk"
            content = message["content"]
            texts = [content] if isinstance(content, str) else [part.get("text") or "" for part in content]
            for text in filter(None, texts):
                self.chunk(kind, text)
        self._to_replay = []

    def _set_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["modeId"] not in MODES:
            raise Failed(f"Invalid or unavailable mode: {params['modeId']}")
        self.mode = params["modeId"]
        return {}

    def _set_model(self, params: dict[str, Any]) -> dict[str, Any]:
        self.model = params["modelId"]
        return {}

    def _offers(self) -> dict[str, Any]:
        if self.is_old:
            return {}
        modes = [{"id": mode, "name": mode} for mode in MODES]
        models = [{"modelId": model, "name": model} for model in MODELS]
        return {
            "modes": {"availableModes": modes, "currentModeId": self.mode},
            "models": {"availableModels": models, "currentModelId": self.model},
        }

    def _path(self) -> str:
        """Where the session's file is, in the project's folder below HOME."""
        slug = os.path.basename(self.folder) + "-" + hash_of(self.folder)[:6]
        project = os.path.join(os.environ["HOME"], ".gemini", "tmp", slug)
        os.makedirs(os.path.join(project, "chats"), exist_ok=True)
        with open(os.path.join(project, ".project_root"), "w") as file:
            file.write(self.folder)
        return os.path.join(project, "chats", f"session-{minute()}-{self.session[:8]}.jsonl")


def answer_of(id: str, tool: str, **response: str) -> dict[str, Any]:
    return {"functionResponse": {"id": id, "name": tool, "response": response}}


def hash_of(folder: str) -> str:
    import hashlib

    return hashlib.sha256(folder.encode()).hexdigest()


def minute() -> str:
    return time.strftime("%Y-%m-%dT%H-%M", time.gmtime()) if "GEMINI_SCRIPTED_NOW" in os.environ else LONG_AGO


def moment() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def unique() -> str:
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def install(folder: Any) -> str:
    """Write a program that starts this agent, and give its path: what UNSPOOL_GEMINI_PROGRAM is to name."""
    path = os.path.join(str(folder), "scripted-gemini")
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{os.path.abspath(__file__)}" "$@"\n')
    os.chmod(path, 0o755)
    return path


if __name__ == "__main__":
    Agent().serve()

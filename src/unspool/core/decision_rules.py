"""Suggests rules from a person's decisions: what was always allowed, and what was repeatedly denied.

A suggestion is a text for the person to copy. Nothing is ever applied.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal

import msgspec

from .decisions import RecordedDecision

MIN_ALLOWED = 5
"""How many times the same action has to be allowed, and never denied, before a rule is suggested."""
MIN_DENIED = 3
"""How many times actions have to be denied with the same reason before an instruction is suggested."""
MAX_EVIDENCE = 50
"""The maximum number of decisions listed with a suggestion, the latest ones."""
_LONGEST_COMMAND = 4_000

_COMPOUND = re.compile(r"[;&|<>`$(){}\[\]\n\r\\*?!#~]")
"""Characters that make a command more than one program with its arguments."""
_PROGRAM = re.compile(r"(?:\./)?[A-Za-z0-9][\w.+-]*")
_SUBCOMMAND = re.compile(r"[A-Za-z][\w:-]*")
_NAME = re.compile(r"(?:\./)?(?P<name>\D*?)-?(?:\d.*)?(?:\.exe)?", re.IGNORECASE)
"""The name of a program without its version: `python3.12`, `node20` and `perl5.36` are Python, Node and Perl."""
_INTERPRETERS = {
    # languages
    "awk", "bb", "bpython", "clj", "clojure", "coffee", "cscript", "elixir", "emacs", "erl", "escript", "gawk", "gdb",
    "ghci", "groovy", "guile", "iex", "ipython", "irb", "java", "jruby", "jshell", "julia", "kotlin", "lldb", "lua",
    "luajit", "mawk", "mysql", "nawk", "node", "nodejs", "nvim", "ocaml", "osascript", "perl", "php", "psql",
    "ptpython", "pypy", "python", "pythonw", "r", "racket", "raku", "rscript", "ruby", "runghc", "runhaskell", "sbcl",
    "scala", "sqlite", "tclsh", "ts-node", "tsx", "vi", "vim", "vite-node", "wish", "wscript",
    # shells
    "ash", "bash", "busybox", "cmd", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "powershell", "pwsh",
    "rbash", "sh", "tcsh", "toybox", "xonsh", "zsh",
    # programs that run other programs
    "at", "batch", "builtin", "bunx", "bwrap", "caffeinate", "chroot", "chrt", "command", "concurrently", "corepack",
    "crontab", "cross-env", "debugpy", "doas", "dotenv", "entr", "env", "env-cmd", "eval", "exec", "expect", "fakeroot",
    "fd", "fdfind", "find", "firejail", "flock", "gosu", "gtime", "gtimeout", "hyperfine", "ionice", "kernprof",
    "ltrace", "nice", "nix-shell", "nodemon", "nohup", "npx", "nsenter", "numactl", "parallel", "perf", "pkexec",
    "pnpx", "prlimit", "proot", "pyinstrument", "runuser", "scalene", "screen", "script", "setarch", "setsid", "source",
    "ssh", "stdbuf", "strace", "su", "su-exec", "sudo", "systemd-run", "taskset", "time", "timeout", "tmux", "torchrun",
    "unbuffer", "unshare", "uvx", "valgrind", "viztracer", "watch", "watchexec", "winpty", "wsl", "xargs", "xvfb-run",
}  # fmt: skip
"""Programs that run whatever their arguments say."""
_UNLIMITED = _INTERPRETERS | {
    "chmod", "chown", "cp", "curl", "dd", "install", "ln", "mv", "nc", "rm", "rsync", "scp", "sed", "tee", "wget",
}  # fmt: skip
"""Programs that can do anything, depending on their arguments: a rule for all their uses is never suggested."""
_CODE_MODULES = {"asyncio", "code", "cprofile", "pdb", "profile", "runpy", "timeit", "trace"}
"""Modules with which `python -m` runs whatever the arguments say."""
_WITH_SUBCOMMANDS = {
    "asdf", "brew", "bun", "bundle", "cargo", "composer", "conda", "coverage", "dart", "deno", "devbox", "direnv",
    "docker", "docker-compose", "dotnet", "flutter", "fnm", "gem", "gh", "git", "go", "gradle", "hatch", "helm", "just",
    "kubectl", "make", "mamba", "micromamba", "mise", "mix", "mvn", "nix", "npm", "nvm", "pdm", "pip", "pipenv", "pipx",
    "pixi", "pnpm", "podman", "poetry", "pyenv", "rails", "rake", "rbenv", "rustup", "rye", "swift", "terraform", "uv",
    "volta", "yarn", "zig",
}  # fmt: skip
"""Programs whose subcommands do different things: a rule also names the subcommand."""
_RUNNERS = {
    "api", "compose", "create", "develop", "dlx", "eval", "exec", "r", "repl", "run", "runner", "shell", "ssh", "tool",
    "x",
}  # fmt: skip
"""Subcommands that run other programs."""
_RUN_BY_NAME = {"bun", "npm", "pdm", "pipenv", "pixi", "pnpm", "poetry", "rye", "uv", "yarn"}
"""Programs whose `run` is followed by the name of a script or program."""
_RUN_WITHOUT_RUN = {"bun", "pnpm", "yarn"}
"""Programs whose subcommand may also be a program to run."""


class DecisionEvidence(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A decision that a suggestion is based on."""

    at: datetime
    session: str | None
    verdict: str
    what: str
    """The command or the tool."""
    who: str | None = None


class RuleText(msgspec.Struct, frozen=True):
    """A text to copy, and the file it belongs in."""

    file: str
    text: str


class RuleSuggestion(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A rule that decisions suggest."""

    kind: Literal["allow", "instruct"]
    agent: str
    subject: str
    """The command or tool that was always allowed, or the reason that was given repeatedly."""
    count: int
    question: str
    """The suggestion as a question to the person."""
    rule: RuleText | None = None
    """None if this agent has no such rules."""
    evidence: list[DecisionEvidence]


class RuleWriter(msgspec.Struct, frozen=True):
    """Writes rules for one agent."""

    allow_command: Callable[[tuple[str, ...]], RuleText | None]
    allow_tool: Callable[[str], RuleText | None]
    instructions: str
    """The file with instructions to the model."""


def suggest_rules(
    decisions: Iterable[RecordedDecision], writer_of: Callable[[str], RuleWriter]
) -> list[RuleSuggestion]:
    """Return the rules that people's decisions suggest, those with the most decisions first."""
    own = [one for one in decisions if one.by == "user" and one.verdict != "interrupt"]
    found = [*_allowed(own, writer_of), *_denied(own, writer_of)]
    return sorted(found, key=lambda one: -one.count)


def command_prefix(command: str) -> tuple[str, ...] | None:
    """Return the start of a command that a rule can name; None if a rule for it would allow too much, or nothing."""
    if len(command) > _LONGEST_COMMAND or _COMPOUND.search(command):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if not words or not _PROGRAM.fullmatch(words[0]):
        return None
    at = _named_at(words)
    if at and (len(words) <= at or not _SUBCOMMAND.fullmatch(words[at])):
        return None
    name = _program_name(words[at])
    if name in _UNLIMITED or (at and name in _CODE_MODULES):
        return None
    if name in _WITH_SUBCOMMANDS:
        return tuple(words[: at + 2]) if _is_limited(name, words[at + 1 : at + 2]) else None
    return tuple(words[: at + 1])


def _program_name(word: str) -> str:
    found = _NAME.fullmatch(word)
    return (found["name"] if found else word).lower()


def _named_at(words: list[str]) -> int:
    """The position of the program, module or script that a command runs."""
    name, second = _program_name(words[0]), words[1:2]
    runs_module = name in ("python", "pythonw", "pypy") and second == ["-m"]
    return 2 if runs_module or (name in _RUN_BY_NAME and second == ["run"]) else 0


def _is_limited(name: str, subcommand: list[str]) -> bool:
    """Whether a program with a subcommand does one kind of thing."""
    if not subcommand or not _SUBCOMMAND.fullmatch(subcommand[0]) or subcommand[0] in _RUNNERS:
        return False
    return name not in _RUN_WITHOUT_RUN or _program_name(subcommand[0]) not in _INTERPRETERS


# --- always allowed --------------------------------------------------------------------------------------------------


_Subject = tuple[str, tuple[str, ...]]
"""An agent, and either the first words of a command, or an empty string and the name of a tool."""


def _subject(decision: RecordedDecision) -> _Subject | None:
    command = decision.action.command if decision.action is not None else None
    if command:
        prefix = command_prefix(command)
        return (decision.agent, prefix) if prefix is not None else None
    is_tool = decision.kind == "tool" and decision.tool
    return (decision.agent, ("", decision.tool)) if is_tool and decision.tool else None


def _allowed(decisions: list[RecordedDecision], writer_of: Callable[[str], RuleWriter]) -> Iterable[RuleSuggestion]:
    by_subject: dict[_Subject, list[RecordedDecision]] = {}
    for decision in decisions:
        subject = _subject(decision)
        if subject is not None:
            by_subject.setdefault(subject, []).append(decision)
    for (agent, prefix), ones in by_subject.items():
        # A call that was allowed with a changed input was not approved as the model asked for it.
        unchanged = [one for one in ones if one.verdict.startswith("allow") and one.input is msgspec.UNSET]
        if len(unchanged) < MIN_ALLOWED or len(unchanged) < len(ones):
            continue
        writer, name = writer_of(agent), " ".join(prefix).strip()
        yield RuleSuggestion(
            kind="allow",
            agent=agent,
            subject=name,
            count=len(ones),
            question=f"You allowed `{name}` {len(ones)} times and never denied it: allow it always?",
            rule=writer.allow_command(prefix) if prefix[0] else writer.allow_tool(prefix[1]),
            evidence=_evidence(ones),
        )


# --- denied with a reason -------------------------------------------------------------------------------------------


def _denied(decisions: list[RecordedDecision], writer_of: Callable[[str], RuleWriter]) -> Iterable[RuleSuggestion]:
    by_reason: dict[tuple[str, str], list[RecordedDecision]] = {}
    for decision in decisions:
        if decision.verdict.startswith("deny") and decision.reason and _plain(decision.reason):
            by_reason.setdefault((decision.agent, _plain(decision.reason)), []).append(decision)
    for (agent, _), ones in by_reason.items():
        if len(ones) < MIN_DENIED:
            continue
        reason = " ".join((ones[-1].reason or "").split())
        names = {_name(one) for one in ones}
        what = f"`{names.pop()}`" if len(names) == 1 else "calls"
        file = writer_of(agent).instructions
        yield RuleSuggestion(
            kind="instruct",
            agent=agent,
            subject=reason,
            count=len(ones),
            question=f"You denied {what} with “{reason}” {len(ones)} times: add it to {file}?",
            rule=RuleText(file, f"- {reason}"),
            evidence=_evidence(ones),
        )


def _plain(reason: str) -> str:
    """Normalise a reason: ignore case, repeated spaces and punctuation at the end."""
    return " ".join(reason.casefold().split()).rstrip(".! ")


def _name(decision: RecordedDecision) -> str:
    subject = _subject(decision)
    return " ".join(subject[1]).strip() if subject is not None else decision.tool or "a call"


def _evidence(decisions: list[RecordedDecision]) -> list[DecisionEvidence]:
    return [
        DecisionEvidence(at=one.at, session=one.session, verdict=one.verdict, what=_what(one), who=one.who)
        for one in decisions[-MAX_EVIDENCE:]
    ]


def _what(decision: RecordedDecision) -> str:
    action = decision.action
    shown = (action.command or action.path) if action is not None else None
    return (shown or decision.tool or "")[:_LONGEST_COMMAND]

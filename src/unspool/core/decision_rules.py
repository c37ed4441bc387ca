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
_UNLIMITED = {
    "awk", "bash", "chmod", "chown", "command", "cp", "curl", "dash", "dd", "doas", "env", "eval", "exec", "expect",
    "find", "fish", "install", "ksh", "ln", "mv", "nc", "nice", "node", "nohup", "npx", "osascript", "perl", "php",
    "python", "python3", "rm", "rsync", "ruby", "scp", "screen", "sed", "sh", "ssh", "su", "sudo", "tee", "time",
    "timeout", "tmux", "uvx", "wget", "xargs", "zsh",
}  # fmt: skip
"""Programs that can do anything, depending on their arguments: a rule for all their uses is never suggested."""
_WITH_SUBCOMMANDS = {
    "brew", "bun", "bundle", "cargo", "composer", "conda", "dart", "deno", "docker", "dotnet", "flutter", "gem", "gh",
    "git", "go", "gradle", "helm", "just", "kubectl", "make", "mix", "mvn", "nix", "npm", "pip", "pnpm", "podman",
    "poetry", "rails", "rake", "terraform", "uv", "yarn",
}  # fmt: skip
"""Programs whose subcommands do different things: a rule also names the subcommand."""
_RUNNERS = {"run", "exec", "x", "dlx", "shell", "eval", "api"}
"""Subcommands that run other programs."""
_RUN_BY_NAME = {"bun", "npm", "pnpm", "yarn", "poetry", "uv"}
"""Programs whose `run` is followed by the name of a script or program."""


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
    if words[0].startswith("python") and words[1:2] == ["-m"] and words[2:] and _SUBCOMMAND.fullmatch(words[2]):
        return tuple(words[:3])
    if words[0] in _UNLIMITED:
        return None
    if words[0] not in _WITH_SUBCOMMANDS:
        return (words[0],)
    return _with_subcommand(words)


def _with_subcommand(words: list[str]) -> tuple[str, ...] | None:
    if len(words) < 2 or not _SUBCOMMAND.fullmatch(words[1]):
        return None
    if words[1] not in _RUNNERS:
        return tuple(words[:2])
    is_named = words[1] == "run" and words[0] in _RUN_BY_NAME and len(words) > 2 and _SUBCOMMAND.fullmatch(words[2])
    return tuple(words[:3]) if is_named and words[2] not in _UNLIMITED else None


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

"""The rules behind a record: for each piece of evidence, the rule, and what would have changed the result.

Readers name the evidence of an event in a few words. This table and those of the agents explain these words. A test
checks that every piece of evidence in the recordings has a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias


class Rule(NamedTuple):
    """The reason why a record says something."""

    text: str
    """The condition that the files meet."""
    otherwise: str
    """What would have led to a different result."""


RuleKey: TypeAlias = tuple[str, str]
"""The subject of a rule, and the evidence or value that it explains."""
Rules: TypeAlias = Mapping[RuleKey, Rule]

COMMON: Rules = {
    ("context", "live"): Rule(
        "The chain of parents from the end of the active path reaches it, with no compaction or clear between.",
        "A later compaction that does not keep it, or a later clear.",
    ),
    ("context", "compacted"): Rule(
        "A later compaction on the active path replaced it with a summary.",
        "If the compaction listed it among the messages it keeps, it would still be in context.",
    ),
    ("context", "cleared"): Rule(
        "The context was cleared after it.",
        "Without the clear it would still be in context.",
    ),
    ("context", "rewound"): Rule(
        "It is on a branch that a person abandoned by going back to an earlier message.",
        "If the active path ended on this branch, it would be in context.",
    ),
    ("context", "abandoned"): Rule(
        "The chain of parents from the end of the active path does not reach it.",
        "If the active path ended below it, it would be in context.",
    ),
    ("branch", "rewind"): Rule(
        "The branch begins with a prompt that the model answered, and the conversation continued from an earlier one.",
        "Without an answer of the model on it, the prompt would count as interrupted.",
    ),
    ("branch", "interrupted"): Rule(
        "The branch begins with a prompt that the model never answered, and another prompt replaced it.",
        "With an answer of the model on it, the branch would be a rewind.",
    ),
    ("branch", "resumed"): Rule(
        "The branch begins with a model message whose call has no result, and the conversation continued without it.",
        "If the call had a result, the branch would be a retry.",
    ),
    ("branch", "retry"): Rule(
        "The branch begins with a model message, and the conversation continued with another one instead.",
        "If the message had a call without a result, the branch would come from a resume.",
    ),
    ("branch", "fork"): Rule(
        "The log itself says that the conversation was forked here.",
        "Without that record, the reason would be inferred from how the branch begins.",
    ),
    ("rollback", "branch"): Rule(
        "A branch was abandoned by going back, and the next prompt continues from an earlier message.",
        "Without an answer of the model on the branch, it would be an interruption.",
    ),
    ("interruption", "abandoned prompt"): Rule(
        "A prompt got no answer, and another prompt replaced it.",
        "A recorded interruption would make it certain; an answer of the model would make it a rewind.",
    ),
    ("interruption", "supervisor"): Rule(
        "unspool ran the agent, and its decision log has the interruption.",
        "Without the decision, only the files of the agent would show it.",
    ),
    ("rejection", "supervisor"): Rule(
        "unspool ran the agent, and its decision log has the rejection.",
        "Without the decision, only the files of the agent would show it.",
    ),
    ("input_change", "supervisor"): Rule(
        "unspool ran the agent, and its decision log has the input with which the call was allowed.",
        "Without the decision, the input of the model would be shown.",
    ),
    ("orphan", "killed"): Rule(
        "The log has the call and no result, and the session is not running.",
        "A result anywhere in the log, before or after the call.",
    ),
    ("orphan", "running"): Rule(
        "The log has the call and no result yet, and the agent has the session open.",
        "A result, or the end of the agent.",
    ),
    ("orphan", "waiting"): Rule(
        "The agent that unspool runs has asked whether it may make the call, and nobody has answered yet.",
        "An answer, or the end of the turn.",
    ),
    ("orphan", "compacted"): Rule(
        "A compaction removed the call before its result was written.",
        "A result anywhere in the log.",
    ),
    ("orphan", "unknown"): Rule(
        "The log has the call and no result, and other facts show that the agent was not killed.",
        "A result anywhere in the log.",
    ),
    ("link", "stitched"): Rule(
        "The parent that the record names is not in the file, so the message was attached to the one before it. The "
        "context starts again there, unless the next request has more tokens than the text since then can have.",
        "If the file had the parent, the message would be attached to that.",
    ),
    ("compaction", ""): Rule(
        "The agent recorded a compaction. It replaced everything in context except the messages it kept.",
        "Without the record, everything before it would still be in context.",
    ),
    ("error", ""): Rule(
        "The agent recorded the failure of a call, a request or a response, and nobody had rejected or stopped it.",
        "The text of a rejection or an interruption would make it one of those instead.",
    ),
    ("subagent", ""): Rule(
        "A call started the sub-agent, or the log names it.",
        "Without a call or a record that names it, its session would have no parent.",
    ),
    ("problem", "context-doubt"): Rule(
        "The input tokens of the request contradict the context that the record claims for it.",
        "A record of what left the context, or a request of the expected size.",
    ),
    ("problem", "torn"): Rule(
        "The last line of the file is not complete.",
        "Once the agent finishes the line, it is read.",
    ),
    ("problem", "salvaged"): Rule(
        "A damaged line contained an intact record, which was read.",
        "An intact line would be read without a problem.",
    ),
    ("problem", "missing-parent"): Rule(
        "A record names a parent that no record has.",
        "The parent in the same file, or in the file that it was copied from.",
    ),
    ("problem", "duplicate-id"): Rule(
        "Two different records have the same id.",
        "Ids that are unique, or records that are the same.",
    ),
    ("problem", "leftover"): Rule(
        "A part of a line is left over after its records were read.",
        "A line with one record and nothing else.",
    ),
    ("problem", "unknown-record"): Rule(
        "The record is intact, but of a kind that unspool does not know.",
        "A version of unspool that knows it.",
    ),
}


def find_rule(about: str, evidence: str, *tables: Rules) -> Rule | None:
    """Return the rule for a piece of evidence: the exact one, else the one with the longest matching beginning."""
    for table in (*tables, COMMON):
        if rule := table.get((about, evidence)):
            return rule
    beginnings = [
        key for table in (*tables, COMMON) for key in table if key[0] == about and evidence.startswith(key[1])
    ]
    if not beginnings:
        return None
    longest = max(beginnings, key=lambda key: len(key[1]))
    return next(table[longest] for table in (*tables, COMMON) if longest in table)

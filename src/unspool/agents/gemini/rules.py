"""Explanations of the evidence in records of Gemini CLI."""

from __future__ import annotations

from ...core.rules import Rule, Rules

RULES: Rules = {
    ("author", "human"): Rule(
        "A user message that does not begin with one of the agent's tags and, in a terminal session, is in the prompt "
        "log or short enough to have been typed.",
        "One of the agent's tags at the beginning, or a long text that the prompt log does not have.",
    ),
    ("author", "harness"): Rule(
        "A note of the agent, or a user message that is empty or begins with one of its tags.",
        "Without the tag, a user message counts as typed by a person.",
    ),
    ("author", "model"): Rule(
        "A message of the model, a prompt of a sub-agent, or a long user message that the prompt log does not have.",
        "An entry in the prompt log would make it typed by a person.",
    ),
    ("rejection", "result text"): Rule(
        "The call has the status and the fixed sentence of a rejection.",
        "Another status would mean that the call ran, or was stopped.",
    ),
    ("rejection", "cancelled; an interruption would look the same"): Rule(
        "The call was cancelled before it ran, and the file does not show whether it was rejected or stopped with Esc.",
        "A note that the request was cancelled would make it an interruption.",
    ),
    ("interruption", "Request cancelled."): Rule(
        "The agent left its note that the request was cancelled.",
        "Without the note, only the state of the calls could show it.",
    ),
    ("interruption", "loop detection"): Rule(
        "The agent left its note that it detected a loop and stopped.",
        "Without the note, the turn would count as complete.",
    ),
    ("interruption", "API error"): Rule(
        "The agent left a note about a failed request: a limit was reached, or the server or the connection failed "
        "after the model had begun to respond.",
        "Without the note, the turn would count as complete; with another error, only as failed.",
    ),
    ("interruption", "result text"): Rule(
        "A running call was cancelled, and no note of the agent says so.",
        "A result of the call would mean that it finished.",
    ),
    ("interruption", "the turn was erased"): Rule(
        "A turn that was recorded is no longer in the conversation, and no record says why.",
        "A recorded rewind would explain it.",
    ),
    ("clear", "logs"): Rule(
        "The prompt log has a command for a new conversation at that time.",
        "Without the entry, the next session would count as new.",
    ),
    ("clear", "session"): Rule(
        "The session continues in another file, whose first request is smaller than the last one before it.",
        "A note about a compression or a larger request would mean that the conversation continued.",
    ),
    ("rollback", "$rewindTo"): Rule(
        "The agent recorded to which message the conversation went back.",
        "Without the record, the messages would still be in context.",
    ),
}

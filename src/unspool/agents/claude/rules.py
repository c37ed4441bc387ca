"""Explanations of the evidence in records of Claude Code."""

from __future__ import annotations

from ...core.rules import Rule, Rules

RULES: Rules = {
    ("author", "human"): Rule(
        "A user record of the main session that is not marked as the agent's own (`isMeta`, `origin`) and does not "
        "begin with one of the agent's tags.",
        "A mark of the agent, one of its tags at the beginning, or a record in the log of a sub-agent.",
    ),
    ("author", "harness"): Rule(
        "A record that the agent writes itself, or a user record that it marked (`isMeta`, `origin`) or that begins "
        "with one of its tags.",
        "Without the mark and the tag, a user record counts as typed by a person.",
    ),
    ("author", "model"): Rule(
        "An assistant record, or the first message to a sub-agent, which the model wrote.",
        "The same text in a user record of the main session would count as typed by a person.",
    ),
    ("author", "subagent"): Rule(
        "A user record that passes on the notification of a sub-agent or background task.",
        "Without the notification's tag or `origin`, it would count as typed by a person.",
    ),
    ("author", "hook"): Rule(
        "The output of a hook.",
        "Without the hook's tag or type, it would be the agent's own.",
    ),
    ("rejection", "denial kind"): Rule(
        "The result says who rejected the call (`toolDenialKind`).",
        "Without the field, the sentence in the result decides.",
    ),
    ("rejection", "permission decision"): Rule(
        "The log has the decision about the permission of the call.",
        "Without it, the sentence in the result decides.",
    ),
    ("rejection", "result text, last in the session"): Rule(
        "The result of a plan has the agent's fixed sentence for a rejection, and nothing follows in the session. A "
        "plan that is approved with a cleared context looks the same if the session that implements it is gone.",
        "A session that begins with this plan at the same moment would make it an approval.",
    ),
    ("rejection", "result text"): Rule(
        "The result has the agent's fixed sentence for a rejection, and no sign that the call was already running.",
        "Progress records of the call would make it an interruption; a session that begins with the plan, an approval.",
    ),
    ("interruption", "marker after a refusal text, headless"): Rule(
        "An interruption marker follows a rejection text in a session without a terminal, where both look the same.",
        "In a terminal session the marker would decide.",
    ),
    ("interruption", "marker"): Rule(
        "The agent wrote its interruption marker.",
        "Without the marker, the turn would count as complete, or as killed.",
    ),
    ("interruption", "a running call was refused"): Rule(
        "The result has the sentence for a rejection, but progress records show that the call was already running.",
        "Without progress records, it would be a rejection.",
    ),
    ("interruption", "result text"): Rule(
        "The result of a call says that it was stopped, and no marker follows.",
        "Another result would mean that the call finished.",
    ),
    ("interruption", "exit code"): Rule(
        "A command ended by a signal that people send (exit code 130 or 137), and no marker follows.",
        "Another exit code would be a failure of the command.",
    ),
    ("interruption", "API error"): Rule(
        "A failed request ended the turn.",
        "A later response of the model in the same turn would mean that the request was repeated.",
    ),
    ("clear", "history"): Rule(
        "The prompt history has a `/clear` at that time, in the same folder.",
        "Without the entry, a new session shows the clear only by how it begins.",
    ),
    ("clear", "session"): Rule(
        "The session, or the one that follows it, begins as a session does after a clear.",
        "An entry in the prompt history would make it certain.",
    ),
    ("resume", "a SessionStart:resume hook"): Rule(
        "A hook that runs when a session is resumed left a record.",
        "In files that record such hooks, a smaller context alone is no resume; headless resumes leave no hook.",
    ),
    ("resume", "a call was left behind"): Rule(
        "The conversation continues without the result of a call, as it does after the agent was killed.",
        "A result of the call.",
    ),
    ("resume", "the harness answered in the model's place"): Rule(
        "The agent wrote its fixed response to a prompt that had none, as it does when it loads a session.",
        "A response of the model.",
    ),
    ("resume", "the context shrank by about what a resume loses"): Rule(
        "The next request is smaller by about the size of the results that these versions lose on a resume.",
        "A loss of another size: dropped reasoning makes a request smaller, too.",
    ),
}

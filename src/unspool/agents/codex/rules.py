"""Explanations of the evidence in records of Codex CLI."""

from __future__ import annotations

from ...core.rules import Rule, Rules

RULES: Rules = {
    ("author", "human"): Rule(
        "A user message of a main session that the agent did not mark as its own and that does not begin with one of "
        "its tags.",
        "A mark of the agent (0.166), or one of its tags at the beginning.",
    ),
    ("author", "harness"): Rule(
        "A record that the agent writes itself, or a user message with its mark or one of its tags at the beginning.",
        "Without the mark and the tag, a user message counts as typed by a person.",
    ),
    ("author", "model"): Rule(
        "A message of the model, or a prompt of a sub-agent, which the model wrote.",
        "The same text in a main session would count as typed by a person.",
    ),
    ("author", "subagent"): Rule(
        "A user message that passes on the notification of a sub-agent.",
        "Without the notification's tag, it would count as typed by a person.",
    ),
    ("rejection", "result text"): Rule(
        "The output of the call has the agent's fixed sentence for a rejection.",
        "Another output would mean that the call ran.",
    ),
    ("rejection", "inferred"): Rule(
        "The call needed an approval and never got an output, though the session continued.",
        "An output of the call, or a decision that was made in unspool.",
    ),
    ("interruption", "turn_aborted"): Rule(
        "The agent recorded that the turn was aborted.",
        "A recorded end of the turn would mean that it finished.",
    ),
    ("interruption", "note"): Rule(
        "The agent left its fixed note about an interruption in the conversation (old versions).",
        "Without the note, the turn would count as complete, or as killed.",
    ),
    ("interruption", "error event"): Rule(
        "A recorded error ended the turn.",
        "A later response of the model in the same turn would mean that the request was repeated.",
    ),
    ("interruption", "the words"): Rule(
        "The text of the model mentions an abort or a rate limit; these versions record nothing better.",
        "A text without these words.",
    ),
    ("clear", "history"): Rule(
        "The prompt history has a command for a new conversation at that time.",
        "Without the entry, nothing in the files shows it.",
    ),
    ("clear", "session"): Rule(
        "The TypeScript CLI (0.1) left its note that the terminal was cleared.",
        "Without the note, the messages would still be in context.",
    ),
    ("resume", "the context shrank by its token count"): Rule(
        "The recorded size of the context is smaller than before, without a compaction.",
        "A size that grows.",
    ),
    ("resume", "went back past a compaction"): Rule(
        "The thread went back to a point before a compaction.",
        "A point after the compaction would be an ordinary rollback.",
    ),
    ("rollback", "thread_rolled_back"): Rule(
        "The agent recorded that the thread went back, and by how many turns.",
        "Without the record, the turns would still be in context.",
    ),
    ("rollback", "revert"): Rule(
        "The agent wrote a file that says to which point the thread went back.",
        "Without the file, the turns would still be in context.",
    ),
}

"""Markdown: what the transcript holds never changes the structure of the document around it."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from unspool.agents import AGENTS
from unspool.api import load, samples, sessions
from unspool.core.session import Session
from unspool.render.markdown import render_markdown
from unspool.render.safe_markup import safe_lines
from unspool.testing import ClaudeLog, call

REFUSAL = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nuse tabs\n\n# not spaces"  # noqa: E501
BREAKING = [
    "# heading\n## another\n###### deep",
    "setext\n===\n\nsecond\nline\n---",
    "```\nnever closed",
    "~~~~python\nnever closed\n```",
    "```\nclosed\n```\n   ",
    "````\n```\ninner\n```\n````",
    "- item\n  ```\n  never closed",
    "- item\n  ```\nleft the item",
    "<!-- never closed",
    "<!--\n# heading\n-->",
    "<details>\n<summary>x</summary>\n\n# heading",
    "text <script>alert(1)</script> text",
    "\\\\<b>already\\<escaped",
    "> quote\n> ```\n> never closed",
    "1. one\n\n       # code\n\n# heading",
    "# ",
    "text\n\n\n",
]


def rendered(session: Session) -> str:
    return "\n".join(render_markdown(session, AGENTS[session.agent].describe))


def parsed(text: str) -> list[Token]:
    return MarkdownIt("commonmark").parse(text)


def headings(text: str, deepest: int = 3) -> list[str]:
    """The document's own headings."""
    tokens = parsed(text)
    found = []
    for place, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and int(token.tag[1:]) <= deepest:
            found.append(f"{token.tag} {tokens[place + 1].content}")
    return found


def talk(prompt: str, answer: str) -> ClaudeLog:
    log = ClaudeLog()
    log.line("custom-title", None, customTitle="The title")
    log.user(prompt)
    log.model(answer)
    log.model(call("c", f"Tool\n# {prompt}", value=prompt))
    log.result("c", answer)
    log.user("the end")
    return log


@pytest.mark.parametrize("text", BREAKING)
def test_content_does_not_break_the_structure(text: str, tmp_path: Path) -> None:
    """Only our own headings are headings, in order; and there is no HTML."""
    document = rendered(talk(f"p {text}\n\n{text}", text).load(tmp_path))
    names = [heading.split(" · ")[0] for heading in headings(document)]
    assert names == ["h1 The title", "h2 You", "h3 claude-sonnet-4-5", "h2 You"]
    kinds = {token.type for token in parsed(document)}
    kinds |= {part.type for token in parsed(document) for part in token.children or ()}
    assert not kinds & {"html_block", "html_inline"}


def test_fences_are_longer_than_their_content(tmp_path: Path) -> None:
    """Output with fences in it, of any length, stays in one block."""
    log = ClaudeLog()
    log.user("go")
    log.model(call("c", command="cat notes.md"))
    output = "text\n```\ncode\n````\nmore\n```"
    log.result("c", output)
    (block,) = [token for token in parsed(rendered(log.load(tmp_path))) if token.type == "fence"]
    assert block.content == output + "\n"


def test_rejections_have_their_diff_and_reason(tmp_path: Path) -> None:
    """The rejected change and the whole reason."""
    log = ClaudeLog()
    log.user("go")
    log.model(call("c1", "Edit", file_path="a.txt", old_string="old", new_string="new"))
    log.result("c1", REFUSAL, error=True, toolUseResult="User rejected tool use")
    document = rendered(log.load(tmp_path))
    assert "**Edit** `a.txt` — ⊘ rejected: “use tabs # not spaces”" in document
    (diff,) = [token for token in parsed(document) if token.type == "fence" and token.info == "diff"]
    assert "-old\n" in diff.content
    assert "+new\n" in diff.content


def test_every_rejected_edit_of_the_samples_is_shown() -> None:
    """Real sessions too."""
    diffs = 0
    for ref in sessions(samples()):
        session = load(ref)
        document = rendered(session)
        for rejection in session.rejections:
            if rejection.action is not None and rejection.action.diff:
                diffs += 1
                assert rejection.action.diff.rstrip("\n") in document
    assert diffs > 0


def test_the_head(tmp_path: Path) -> None:
    """Facts, each on one line, even when a path has two."""
    log = ClaudeLog()
    log.user("hello", cwd="/home/dev/`x`\n# y", version="1\n# z")
    lines = rendered(log.load(tmp_path)).split("\n")
    assert lines[0] == "# hello"
    assert "- **Project:** `/home/dev/ʼxʼ # y`" in lines
    assert "- **Agent:** claude 1 # z" in lines


def test_headings_of_answers_are_demoted() -> None:
    """They stay headings, in their order."""
    assert safe_lines("# one\ntext\n## two\n\nthree\n=====\n\n##### five ##") == [
        "#### one",
        "text",
        "##### two",
        "",
        "#### three",
        "",
        "###### five ##",
    ]


def test_ordinary_markdown_is_left_alone() -> None:
    """Lists, tables, code, quotes and links are unchanged."""
    words = "A **word**:\n\n- one\n- two `<b>`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    text = words + "```python\n# not a heading <b>\n```\n> said\n\n[x](y)"
    assert safe_lines(text) == text.split("\n")


def test_html_that_cannot_be_escaped_is_fenced() -> None:
    """When nothing helps, all of it is shown as it is."""
    lines = safe_lines("\\\\<b>bold")
    assert lines[0] == lines[-1] == "```"


def test_unknown_inputs_are_shown(tmp_path: Path) -> None:
    """Input that is not an object stays readable."""
    log = ClaudeLog()
    log.user("go")
    log.model({"type": "tool_use", "id": "c", "name": "Odd", "input": ["a", 1, None]})
    assert '[\n  "a",\n  1,\n  null\n]' in rendered(log.load(tmp_path))

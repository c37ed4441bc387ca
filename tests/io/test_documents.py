"""Tests of documents: one JSON value with a long list in it."""

from __future__ import annotations

import json

import pytest

from unspool.io.documents import split_document

VALUE = {
    "sessionId": "s1",
    "messages": [{"id": "a", "content": "one\n    }\n  ]"}, {"id": "b", "parts": [{"text": "two"}]}],
    "summary": "short",
}
INDENTED = json.dumps(VALUE, indent=2).encode()


def test_elements_have_their_places() -> None:
    document = split_document(INDENTED, "messages")
    assert [json.loads(element.data) for element in document.elements] == VALUE["messages"]
    for data, (line, offset, length) in document.elements:
        assert INDENTED[offset : offset + length] == data
        assert INDENTED.splitlines()[line - 1] == b"    {"
    assert document.head == {"sessionId": "s1", "summary": "short"}
    assert (document.damages, document.lines) == ([], len(INDENTED.splitlines()))


def test_elements_may_be_on_one_line() -> None:
    data = b'{\n  "messages": [\n    {"id": "a"},\n    {"id": "b"} trailing\n    {"id": "c"}\n  ],\n  "x": 1\n}\n'
    document = split_document(data, "messages")
    assert [element.data for element in document.elements] == [b'{"id": "a"}', b'{"id": "c"}']
    assert [element.location.line for element in document.elements] == [3, 5]
    assert (document.head, document.lines) == ({"x": 1}, 9)


def test_what_follows_the_list_is_no_element() -> None:
    data = b'{\n  "messages": [\n    {\n    }\n  ],\n  "others": [\n    {\n    }\n  ]\n}'
    assert len(split_document(data, "messages").elements) == 1


@pytest.mark.parametrize("cut", [b'"parts"', b'"two"'])
def test_complete_elements_of_a_torn_document_are_kept(cut: bytes) -> None:
    data = INDENTED[: INDENTED.index(cut)]
    document = split_document(data, "messages")
    assert [json.loads(element.data)["id"] for element in document.elements] == ["a"]
    assert [damage.reason for damage in document.damages] == ["torn", "torn"]
    assert document.damages[0].location.line == 8
    assert document.lines == len(data.splitlines())


def test_a_document_on_one_line_is_decoded_whole() -> None:
    document = split_document(json.dumps(VALUE).encode(), "messages")
    assert [json.loads(element.data)["id"] for element in document.elements] == ["a", "b"]
    assert document.lines == 1

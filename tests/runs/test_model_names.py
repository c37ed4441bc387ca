"""Models that people choose, compared with those that an agent offers."""

from __future__ import annotations

import pytest

from unspool.core.errors import UsageError
from unspool.runs.model_names import check_model, model_warning

OFFERED = ("gpt-5.5", "gpt-5.5-codex")


@pytest.mark.parametrize(("model", "offered"), [(None, OFFERED), ("gpt-5.5", OFFERED), ("anything", ())])
def test_models_that_need_no_warning(model: str | None, offered: tuple[str, ...]) -> None:
    """The agent's own choice, what it lists, and anything for an agent that lists nothing."""
    assert model_warning("Codex", model, offered) is None
    check_model("Codex", model, offered)


def test_a_model_that_is_not_listed_gets_a_warning() -> None:
    """A provider of the user may know it, so it is not refused."""
    assert model_warning("Codex", "gpt-5.5-codecs", OFFERED) == (
        "Codex does not list the model 'gpt-5.5-codecs'. If your provider does not know it either, every turn will "
        "fail. It lists: gpt-5.5, gpt-5.5-codex."
    )
    check_model("Codex", "gpt-5.5-codecs", OFFERED)
    with pytest.raises(UsageError, match="it offers: gpt"):
        check_model("Codex", "gpt", OFFERED)


def test_a_long_list_is_cut() -> None:
    warning = model_warning("Codex", "x", tuple(f"model-{number}" for number in range(40))) or ""
    assert "model-11 and 28 more." in warning

"""`unspool completion`: a script that lets a shell complete commands, options and their values."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import NamedTuple

EXAMPLES = """examples:
  unspool completion bash > ~/.local/share/bash-completion/completions/unspool
  unspool completion zsh > "${fpath[1]}/_unspool"
  unspool completion fish > ~/.config/fish/completions/unspool.fish"""


class _Option(NamedTuple):
    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]


class _Command(NamedTuple):
    name: str
    help: str
    options: list[_Option]
    choices: tuple[str, ...]
    """The possible values of its arguments; empty if they are names of sessions or files."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("shell", choices=list(_SHELLS), help="the shell that reads the script")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    print("\n".join(_SHELLS[args.shell](list(_commands()))))
    return 0


def _commands() -> Iterator[_Command]:
    from ..main import command_parser, commands

    for name, text in commands().items():
        options: list[_Option] = []
        choices: list[str] = []
        for action in command_parser(name)._actions:
            known = tuple(map(str, action.choices or ()))
            if action.option_strings:
                help = (action.help or "").split("; ")[0].split(" (")[0] % {"prog": "unspool", "default": ""}
                options.append(_Option(tuple(action.option_strings), help, action.nargs != 0, known))
            else:
                choices += known
        yield _Command(name, text, options, tuple(choices))


def _bash(commands: list[_Command]) -> Iterator[str]:
    yield "_unspool() {"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="" each words=""'
    yield '    for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield '        [[ $each != -* ]] && { command="$each"; break; }'
    yield "    done"
    yield '    case "$command $before" in'
    for command in commands:
        for option in command.options:
            if option.choices:
                patterns = "|".join(f'"{command.name} {name}"' for name in option.names)
                yield f"        {patterns}) words={shlex.quote(' '.join(option.choices))} ;;"
    yield "    esac"
    yield '    [[ -z $words ]] && case "$command" in'
    first = " ".join((*(command.name for command in commands), "--help", "--version"))
    yield f'        "") words={shlex.quote(first)} ;;'
    for command in commands:
        names = [*command.choices, *(name for option in command.options for name in option.names)]
        yield f"        {command.name}) words={shlex.quote(' '.join(names))} ;;"
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o default -F _unspool unspool"


def _zsh(commands: list[_Command]) -> Iterator[str]:
    yield "#compdef unspool"
    yield "_unspool() {"
    yield "    local -a commands"
    yield "    commands=("
    yield from (f"        {shlex.quote(f'{command.name}:{command.help}')}" for command in commands)
    yield "    )"
    yield "    if (( CURRENT == 2 )); then"
    yield "        _describe command commands"
    yield "        return"
    yield "    fi"
    yield '    case "$words[2]" in'
    for command in commands:
        specs = [spec for option in command.options for spec in _zsh_specs(option)]
        rest = f"*:value:({' '.join(command.choices)})" if command.choices else "*:file:_files"
        yield f"        {command.name}) _arguments {' '.join(map(shlex.quote, [*specs, rest]))} ;;"
    yield "    esac"
    yield "}"
    yield '_unspool "$@"'


def _zsh_specs(option: _Option) -> Iterator[str]:
    text = option.help.replace("[", "(").replace("]", ")").replace(":", " ")
    value = ""
    if option.takes_value:
        value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files"
    yield from (f"*{name}[{text}]{value}" for name in option.names)


def _fish(commands: list[_Command]) -> Iterator[str]:
    names = " ".join(command.name for command in commands)
    for command in commands:
        condition = f"not __fish_seen_subcommand_from {names}"
        yield f"complete -c unspool -f -n {shlex.quote(condition)} -a {command.name} -d {shlex.quote(command.help)}"
    for command in commands:
        start = f"complete -c unspool -n {shlex.quote(f'__fish_seen_subcommand_from {command.name}')}"
        if command.choices:
            yield f"{start} -f -a {shlex.quote(' '.join(command.choices))}"
        for option in command.options:
            flags = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            values = f" -a {shlex.quote(' '.join(option.choices))} -x" if option.choices else ""
            needs = " -r" if option.takes_value and not option.choices else ""
            yield f"{start} {flags}{needs}{values} -d {shlex.quote(option.help)}"


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}

"""`tare completion`: completions of shells, made of the parser, so that they cannot differ."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from tare_client.command_parser import build_parser
from tare_client.terminal import print_json

TAKES_FILES = ("FILE",)


@dataclass(frozen=True)
class CommandWords:
    """What can follow a command."""

    name: str
    about: str
    options: tuple[str, ...]
    file_options: tuple[str, ...]
    """Those whose value is a file."""
    value_options: tuple[str, ...]
    """Those that take any other value."""
    choices: tuple[str, ...]
    takes_file: bool


def run_completion(arguments: argparse.Namespace) -> int:
    """Print the completion of a shell."""
    script = write_bash() if arguments.shell == "bash" else write_zsh()
    if arguments.json:
        print_json({"shell": arguments.shell, "script": script})
    else:
        print(script, end="")
    return 0


def list_commands() -> list[CommandWords]:
    """Return the words of each command."""
    action = next(
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    about = {choice.dest: choice.help or "" for choice in action._choices_actions}
    return [_describe(name, about[name], parser) for name, parser in action.choices.items()]


def _describe(name: str, about: str, parser: argparse.ArgumentParser) -> CommandWords:
    named = [action for action in parser._actions if action.option_strings]
    with_value = [action for action in named if action.nargs != 0]
    places = [action for action in parser._actions if not action.option_strings]
    return CommandWords(
        name,
        about,
        tuple(word for action in named for word in action.option_strings),
        tuple(w for a in with_value if a.metavar in TAKES_FILES for w in a.option_strings),
        tuple(w for a in with_value if a.metavar not in TAKES_FILES for w in a.option_strings),
        tuple(str(choice) for place in places for choice in place.choices or ()),
        any(place.metavar in TAKES_FILES for place in places),
    )


def write_bash() -> str:
    """Return the completion of bash."""
    commands = list_commands()
    cases = []
    for command in commands:
        lines = [f"        {command.name})"]
        if command.file_options:
            lines.append(
                f'            [[ " {" ".join(command.file_options)} " == *" $previous "* ]] '
                "&& { _tare_files; return; }"
            )
        if command.value_options:
            values = " ".join(command.value_options)
            lines.append(f'            [[ " {values} " == *" $previous "* ]] && return')
        words = " ".join((*command.options, *command.choices))
        lines.append(f'            words="{words}"')
        if command.takes_file:
            lines.append("            [[ $current == -* ]] || { _tare_files; return; }")
        cases.append("\n".join([*lines, "            ;;"]))
    names = " ".join(command.name for command in commands)
    return "\n".join(
        [
            "# bash completion of tare: source <(tare completion bash)",
            "_tare_files() {",
            "    local IFS=$'\\n'",
            "    compopt -o filenames 2>/dev/null",
            '    COMPREPLY=($(compgen -f -- "$current"))',
            "}",
            "_tare() {",
            '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
            "    local words",
            "    COMPREPLY=()",
            "    if ((COMP_CWORD == 1)); then",
            f'        COMPREPLY=($(compgen -W "{names} --help --version" -- "$current"))',
            "        return",
            "    fi",
            '    case "${COMP_WORDS[1]}" in',
            *cases,
            "    esac",
            '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "}",
            "complete -F _tare tare",
            "",
        ]
    )


def write_zsh() -> str:
    """Return the completion of zsh: a function that can also lie in a folder of $fpath."""
    commands = list_commands()
    described = [f"        {_quote_zsh(f'{c.name}:{c.about}')}" for c in commands]
    cases = []
    for command in commands:
        places = "_files" if command.takes_file else ""
        if command.choices:
            places = f"compadd -- {' '.join(command.choices)}"
        cases.append(
            f"        {command.name})\n"
            f"            options=({' '.join(command.options)})\n"
            f"            file_options=({' '.join(command.file_options)})\n"
            f"            value_options=({' '.join(command.value_options)})\n"
            f"            _tare_words {_quote_zsh(places)}\n"
            "            ;;"
        )
    return "\n".join(
        [
            "#compdef tare",
            "# zsh completion of tare: source <(tare completion zsh), after compinit",
            "_tare_words() {",
            '    local previous="${words[CURRENT-1]}"',
            "    if (( ${file_options[(Ie)$previous]} )); then _files; return; fi",
            "    if (( ${value_options[(Ie)$previous]} )); then return; fi",
            '    if [[ "$PREFIX" == -* ]]; then compadd -- $options; return; fi',
            '    [[ -n "$1" ]] && eval "$1" || compadd -- $options',
            "}",
            "_tare() {",
            "    local -a commands options file_options value_options",
            "    commands=(",
            *described,
            "    )",
            "    if (( CURRENT == 2 )); then",
            '        if [[ "$PREFIX" == -* ]]; then compadd -- --help --version; return; fi',
            "        _describe command commands",
            "        return",
            "    fi",
            '    case "${words[2]}" in',
            *cases,
            "    esac",
            "}",
            'if [[ "${funcstack[1]}" == _tare ]]; then _tare "$@"; else compdef _tare tare; fi',
            "",
        ]
    )


def _quote_zsh(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"

"""The commands of `airw`, by their names."""

import argparse

from airw.cli.parser import parser


def commands(of):
    """Yield the parser of each command below a parser."""
    groups = [action for action in of._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield of
    for group in groups:
        for command in group.choices.values():
            yield from commands(command)


COMMANDS = {command.prog.removeprefix("airw "): command for command in commands(parser())}

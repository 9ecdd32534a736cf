"""A tool: a function that an agent calls by name, with arguments in JSON."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any

from airw._base.json import to_whole
from airw._base.messages import one_line, short_repr
from airw.errors import AirwError, ArgumentError

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a language model may call.

    Register it in the format of your model's API, and answer each call of the model with `call`. An agent library that
    takes functions gets `function`, which has the name and the documentation of the tool. It answers mistakes as `call`
    does.

    Args:
        name: Its name: letters, digits, `_` and `-`, at most 64.
        description: What it is for, as the model reads it.
        properties: The JSON schema of each argument by name; one without a `default` is required.
        function: The async function; its answer is a text. The tool keeps it wrapped, so that it raises no `AirwError`.

    Example:
        >>> async def double(number: int) -> str:
        ...     return str(2 * number)
        >>> tool = Tool("double", "Double a number.", {"number": {"type": "integer"}}, double)
        >>> tool.to_anthropic()["input_schema"]["required"]
        ['number']
        >>> import anyio
        >>> anyio.run(tool.call, '{"number": 21}'), anyio.run(tool.call, '{"value": 21}')
        ('42', "error: double takes number, not 'value'")
    """

    name: str
    description: str
    properties: Mapping[str, Mapping[str, Any]]
    function: Callable[..., Awaitable[str]]

    def __post_init__(self) -> None:
        """Check the name, and make the function answer what it would raise."""
        if not _NAME.fullmatch(self.name):
            raise ArgumentError(
                f"name must be 1 to 64 letters, digits, '_' or '-', as the APIs of models want it, "
                f"not {short_repr(self.name)}"
            )
        object.__setattr__(self, "function", self._answer_errors(self.function))

    def _answer_errors(self, function: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
        """Return the function with the checks and answers of `call`, without which it is called."""
        named = signature(function)

        @wraps(function)
        async def answer(*values: Any, **arguments: Any) -> str:
            try:
                return await function(**self._parse({**arguments, **named.bind_partial(*values).arguments}))
            except AirwError as error:
                return _describe(error)

        return answer

    async def call(self, arguments: str | Mapping[str, Any]) -> str:
        """Call the function with the arguments of a model, and return its answer.

        A mistake of the model and an error of airw are answers too. They begin with `error:`, so that the model can try
        again.

        Args:
            arguments: The arguments by name, or the JSON text of them.
        """
        try:
            known = self._parse(arguments)
        except ArgumentError as error:
            return _describe(error)
        return await self.function(**known)

    def to_openai(self) -> dict[str, Any]:
        """Return the tool in the format of OpenAI's chat completions, and of servers like it."""
        function = {"name": self.name, "description": self.description, "parameters": self._schema()}
        return {"type": "function", "function": function}

    def to_anthropic(self) -> dict[str, Any]:
        """Return the tool in the format of Anthropic's messages."""
        return {"name": self.name, "description": self.description, "input_schema": self._schema()}

    def _list_required(self) -> list[str]:
        return [name for name, schema in self.properties.items() if "default" not in schema]

    def _schema(self) -> dict[str, Any]:
        properties = {name: dict(schema) for name, schema in self.properties.items()}
        return {
            "type": "object",
            "properties": properties,
            "required": self._list_required(),
            "additionalProperties": False,
        }

    def _parse(self, arguments: str | Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name.

        Raises:
            ArgumentError: If they are no JSON object, or not those of the tool.
        """
        values: object = arguments
        if isinstance(arguments, str):
            try:
                values = json.loads(arguments)
            except (ValueError, RecursionError) as error:
                raise ArgumentError(f"the arguments of {self.name} are no JSON: {one_line(str(error))}") from error
        if not isinstance(values, Mapping):
            raise ArgumentError(f"the arguments of {self.name} must be a JSON object, not {short_repr(values)}")
        names = ", ".join(self.properties)
        for name in values:
            if name not in self.properties:
                raise ArgumentError(f"{self.name} takes {names}, not {short_repr(name)}")
        for name in self._list_required():
            if name not in values:
                raise ArgumentError(f"{self.name} needs {name}")
        kinds = {name: schema.get("type") for name, schema in self.properties.items()}
        return {name: to_whole(value) if kinds[name] == "integer" else value for name, value in values.items()}


def _describe(error: AirwError) -> str:
    return f"error: {one_line(str(error))}"

"""A chat server on the loopback interface, built on `embedding_server`.

It answers a prompt with `reply(prompt)` and reports a usage of `tokens`.
"""

from tests.support.embedding_server import EmbeddingServer, alter


class ChatServer(EmbeddingServer):
    """A server that answers each prompt in upper case by default."""

    def __init__(self, reply=str.upper, *, tokens=10, always=None):
        super().__init__(always=always)
        self.reply = reply
        self.tokens = tokens

    @property
    def prompts(self) -> list[str]:
        return [request.payload["messages"][-1]["content"] for request in self.requests]

    @property
    def spec(self) -> str:
        return f"{self.url}#m"

    def answer(self, texts):
        message = {"role": "assistant", "content": self.reply(texts[-1]["content"])}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": self.tokens - 1, "completion_tokens": 1, "total_tokens": self.tokens}
        return {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}


def choice(**values):
    """Return a fault: an answer with these values in its choice."""

    def change(answer):
        answer["choices"][0].update(values)
        return answer

    return alter(change)


def message(**values):
    """Return a fault: an answer with these values in its message."""

    def change(answer):
        answer["choices"][0]["message"].update(values)
        return answer

    return alter(change)


def usage(value):
    """Return a fault: an answer with this token usage."""
    return alter(lambda answer: {**answer, "usage": value})

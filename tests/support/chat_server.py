"""A real chat server on the loopback interface: `tests.embedding_server`, with conversations instead of vectors.

It answers with what `reply` makes of the prompt, and says that this took `tokens`.
"""

from tests.support.embedding_server import EmbeddingServer, changed


class ChatServer(EmbeddingServer):
    """Answers each prompt in upper case, unless told otherwise."""

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
    """Answer with a choice that differs in these values."""

    def change(answer):
        answer["choices"][0].update(values)
        return answer

    return changed(change)


def message(**values):
    """Answer with a message that differs in these values."""

    def change(answer):
        answer["choices"][0]["message"].update(values)
        return answer

    return changed(change)


def usage(value):
    """Answer with another count of tokens."""
    return changed(lambda answer: {**answer, "usage": value})

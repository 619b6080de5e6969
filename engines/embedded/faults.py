"""What a client did wrong, in the error shape of the OpenAI API."""

from __future__ import annotations


class ApiError(Exception):
    """A request that is not served. `message` names the field, the value and the mend, in one line."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        kind: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code
        self.kind = kind

    def body(self) -> dict[str, object]:
        """`{"error": {...}}`, as OpenAI's and vLLM's clients expect it."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def shown(value: object, limit: int = 60) -> str:
    """A client's value for an error message: one line, ASCII, at most about `limit` characters."""
    if isinstance(value, list | dict):
        return f"a {'list' if isinstance(value, list) else 'JSON object'} of {len(value)}"
    text = ascii(value[:limit] if isinstance(value, str) else value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."

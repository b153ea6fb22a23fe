"""Answer each request of an editor: malformed ones and those out of order with an error."""

import logging
from typing import Any

from lsprotocol import types
from pygls.exceptions import (
    JsonRpcContentModified,
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol, default_converter

_logger = logging.getLogger(__name__)

_WRONG = (ExceptionGroup, TypeError, ValueError, KeyError, AttributeError)
"""What the converter raises for a message that is not of its type."""


class AnsweringProtocol(LanguageServerProtocol):
    """The protocol of pygls, but each request has an answer."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        """The message in `data`; None for one that is malformed, which is answered here."""
        method = data.get("method")
        kind = self.get_message_type(method) if isinstance(method, str) else None
        if kind is None or "jsonrpc" not in data:
            return super().structure_message(data)
        try:
            return self._converter.structure(data, kind)
        except _WRONG as problem:
            self._refuse(data, f"{method}: {_reason(problem)}")
        return None

    has_begun = False
    has_ended = False
    """Whether an editor has sent `initialize` and `shutdown`."""
    has_left = False
    """Whether it has sent `exit`."""

    @property
    def is_broken_off(self) -> bool:
        """Whether it has sent `exit` without `shutdown`."""
        return self.has_left and not self.has_ended

    def handle_message(self, message: Any) -> None:
        method = getattr(message, "method", "")
        if message is None or self._is_void(message, method):
            return
        if hasattr(message, "id") and method and (refused := self._out_of_order(method)):
            self._send_response(message.id, error=refused.to_response_error())
            return
        self.has_begun = self.has_begun or method == types.INITIALIZE
        self.has_ended = self.has_ended or method == types.SHUTDOWN
        self.has_left = self.has_left or method == types.EXIT
        super().handle_message(message)

    def _is_void(self, message: Any, method: str) -> bool:
        """
        Whether a notification means nothing: one before `initialize`, and the cancellation of a
        request that has been answered.
        """
        if method == types.CANCEL_REQUEST:
            return message.params.id not in self._request_futures
        is_notification = method and not hasattr(message, "id")
        return bool(is_notification and not self.has_begun and method != types.EXIT)

    def _send_data(self, data: Any) -> None:
        if not self.has_left:
            super()._send_data(data)

    def _out_of_order(self, method: str) -> JsonRpcException | None:
        """Why a request cannot be answered now."""
        if self.has_ended:
            return JsonRpcInvalidRequest("the server was shut down")
        if not self.has_begun and method != types.INITIALIZE:
            return JsonRpcServerNotInitialized("send `initialize` first")
        if self.has_begun and method == types.INITIALIZE:
            return JsonRpcInvalidRequest("`initialize` was sent before")
        return None

    def _refuse(self, data: dict[str, Any], reason: str) -> None:
        if "id" in data:
            error = JsonRpcInvalidParams(reason).to_response_error()
            self._send_response(data["id"], error=error)
        else:
            _logger.warning("Ignoring a malformed notification: %s", reason)


def strict_converter() -> Any:
    """The converter of pygls, but nothing else is taken for a string, number or truth."""
    converter = default_converter()  # type: ignore[no-untyped-call]
    converter.register_structure_hook(str, _string)
    converter.register_structure_hook(int, _whole_number)
    converter.register_structure_hook(bool, _truth)
    return converter


def log_refusals_shortly() -> None:
    """Leave the traceback out of the log where a request is refused: its answer has the reason."""
    logging.getLogger("pygls.protocol.json_rpc").addFilter(_without_traceback)


def _without_traceback(record: logging.LogRecord) -> bool:
    problem = record.exc_info[1] if record.exc_info else None
    if isinstance(problem, (JsonRpcInvalidParams, JsonRpcContentModified)):
        record.exc_info = None
    return True


def _string(value: object, _: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string is needed, not {type(value).__name__}")
    return value


def _whole_number(value: object, _: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a whole number is needed, not {type(value).__name__}")
    return value


def _truth(value: object, _: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"true or false is needed, not {type(value).__name__}")
    return value


def _reason(problem: BaseException) -> str:
    """The first cause of `problem`, and the field that it is about."""
    notes: list[str] = []
    while True:
        notes += getattr(problem, "__notes__", ())
        if not isinstance(problem, BaseExceptionGroup):
            break
        problem = problem.exceptions[0]
    said = f"no field {problem}" if isinstance(problem, KeyError) else str(problem)
    return f"{said} ({notes[-1]})" if notes else said

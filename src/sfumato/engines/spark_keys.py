"""The keys of random streams, given to executors one by one as their step asks for them.

Whoever has the seed can undo every mask, so it never leaves the driver. A step that is carried out elsewhere
takes with it no more than where to ask. What it gets is the key of one stream of its own draws, from which
neither the seed nor another stream follows. Executors prove that they were sent by us (HMAC over a token of
this run); what else travels on the wire is as open as Spark's own traffic, see ``spark.network.crypto``.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Client,
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from typing import Any, Self

from sfumato.draws import Draws, Stream, handed_out

Address = tuple[str, int]


class KeyOffice:
    """Answers for the streams of the steps that were sent to executors while it is open."""

    def __init__(self, bind: str, host: str) -> None:
        self._token = secrets.token_bytes(32)
        self._listener = Listener((bind, 0), backlog=128)
        port: int = self._listener.address[1]
        self._own: Address = (bind, port)
        self.address: Address = (host, port)
        self._draws: list[Draws] = []
        self._open, self._closed = ExitStack(), False
        self._door = threading.Thread(target=self._answer, daemon=True)

    def __enter__(self) -> Self:
        self._open.enter_context(handed_out(self._sent))
        self._door.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._draws.clear()
        self._closed = True
        with suppress(OSError):  # who waits at the door is woken
            socket.create_connection(self._own, timeout=5).close()
        self._door.join(timeout=5)
        self._listener.close()

    def _sent(self, draws: Draws) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if draws not in self._draws:
            self._draws.append(draws)
        return Asking, (self.address, self._token, self._draws.index(draws))

    def _answer(self) -> None:
        while not self._closed:
            with suppress(OSError, EOFError):
                asking = self._listener.accept()
                threading.Thread(target=self._speak, args=(asking,), daemon=True).start()

    def _speak(self, asking: Connection) -> None:
        """With one executor. A stranger, or who asks for what isn't there, is left without a word."""
        wrong = (OSError, EOFError, AuthenticationError, ValueError, IndexError, TypeError)
        with asking, suppress(*wrong):
            deliver_challenge(asking, self._token)
            answer_challenge(asking, self._token)
            while True:
                number, column, stratum, purpose = json.loads(asking.recv_bytes(1 << 20))
                stream = self._draws[number].stream(column, stratum, purpose)
                asking.send_bytes(json.dumps(stream.key).encode())


class Asking:
    """A step's draws on an executor: the same streams, by asking for their keys."""

    def __init__(self, address: Address, token: bytes, number: int) -> None:
        self.address, self.number = address, number
        self._token = token

    def stream(self, column: str = "", stratum: str = "", purpose: str = "") -> Stream:
        return Stream(_key(self.address, self._token, self.number, column, stratum, purpose))

    def __repr__(self) -> str:
        return "Asking(secret)"


_LOCK = threading.Lock()


@cache
def _key(
    address: Address, token: bytes, number: int, column: str, stratum: str, purpose: str
) -> tuple[int, int]:
    with _LOCK:
        line = _line(address, token)
        try:
            line.send_bytes(json.dumps([number, column, stratum, purpose]).encode())
            one, two = json.loads(line.recv_bytes())
        except (OSError, EOFError):
            _line.cache_clear()
            raise ConnectionRefusedError("the driver doesn't answer") from None
    return int(one), int(two)


@cache
def _line(address: Address, token: bytes) -> Connection:
    return Client(address, authkey=token)

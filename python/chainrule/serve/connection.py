"""HTTP/1.1 over asyncio's streams.  h11 parses and frames; this file sets limits: bytes, seconds, connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import unquote

import h11

__all__ = ["Call", "Gone", "Limits", "Refused", "Server"]

Headers = Iterable[tuple[str, str]]
HEAD = 16384  # bytes read at once; of a request's first line and headers, at most twice as many
PIECE = 65536  # bytes that may wait to be sent
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
LINGER = 2.0  # seconds for which what a refused client still sends is read and dropped


class Limits(NamedTuple):
    """What a client may take up."""

    connections: int = 1000
    body: int = 1 << 20  # bytes
    head_seconds: float = 10.0  # for first line and headers; also how long a new connection may be silent
    body_seconds: float = 30.0
    idle_seconds: float = 60.0  # between two requests of a connection
    write_seconds: float = 30.0  # in which a client must have read what waits for it but 64 KiB


class Gone(Exception):
    """The client has left, or does not read."""


class Refused(Exception):
    """A request that is not answered as asked, and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Call:
    """One request, and the way to answer it: ``answer``, or ``start``, ``send`` and ``end``."""

    def __init__(self, connection: Connection, request: h11.Request) -> None:
        self._connection = connection
        self.method, target = request.method.decode("ascii"), request.target.decode("ascii", "replace")
        self.path = unquote(target.partition("?")[0])
        self.headers = {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}
        self.body = b""
        self.started = False

    async def answer(self, status: int, kind: str, body: bytes, headers: Headers = ()) -> None:
        """The whole answer."""
        await self.start(status, kind, [("content-length", str(len(body))), *headers])
        await self.send(body)
        await self.end()

    async def start(self, status: int, kind: str, headers: Headers = ()) -> None:
        """The head of an answer whose parts follow."""
        self.started = True
        closing = [("connection", "close")] if self._connection.closing else []
        head = [("date", formatdate(usegmt=True)), ("content-type", kind), *headers, *closing]
        reason = HTTPStatus(status).phrase.encode()
        await self._connection.send(h11.Response(status_code=status, reason=reason, headers=head))

    async def send(self, part: bytes) -> None:
        """Gone: the client has left, or has read nothing for ``write_seconds``."""
        if part and self.method != "HEAD":
            await self._connection.send(h11.Data(data=part))

    async def end(self) -> None:
        await self._connection.send(h11.EndOfMessage())

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Calls it when the client leaves before the answer's end."""
        self._connection.on_gone(callback)


class Connection:
    """A client's connection: requests, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits) -> None:
        self.reader, self.writer, self.limits = reader, writer, limits
        self.http: Any = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD)
        self.closing = False  # after this answer
        self.idle = True  # between two requests
        self._arriving: asyncio.Task[bytes] | None = None

    # ---- in
    def _arrival(self) -> asyncio.Task[bytes]:
        """What the client sends next; b"": it has left."""
        if self._arriving is None:
            self._arriving = asyncio.ensure_future(self.reader.read(HEAD))
        return self._arriving

    def on_gone(self, callback: Callable[[], None]) -> None:
        def look(task: asyncio.Task[bytes]) -> None:
            if not task.cancelled() and (task.exception() or not task.result()):
                callback()

        self._arrival().add_done_callback(look)

    async def _event(self, deadline: float) -> Any:
        """The next part of a request.  TimeoutError.  Gone.  h11.RemoteProtocolError."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            arrival = self._arrival()
            done, _ = await asyncio.wait([arrival], timeout=max(0.0, deadline - now()))
            if not done:
                raise TimeoutError
            self._arriving = None
            try:
                self.http.receive_data(arrival.result())
            except OSError:
                raise Gone from None
        return event

    async def request(self, seconds: float) -> Call | None:
        """The next request without its body; None: the client left, or was silent."""
        try:
            event = await self._event(now() + seconds)
        except TimeoutError:
            if self.http.trailing_data[0]:
                raise Refused(408, f"the headers did not arrive within {seconds:g} s") from None
            return None
        return Call(self, event) if isinstance(event, h11.Request) else None

    async def read_body(self, call: Call) -> None:
        """Refused: it is larger than the limit, before it is read; or it is slow."""
        most, parts, size = self.limits.body, [], 0
        if int(call.headers.get("content-length", "0")) > most:
            raise Refused(413, f"the body is {call.headers['content-length']} bytes, the limit is {most}")
        if self.http.they_are_waiting_for_100_continue:
            await self.send(h11.InformationalResponse(status_code=100, headers=[]))
        deadline = now() + self.limits.body_seconds
        try:
            while isinstance(event := await self._event(deadline), h11.Data):
                parts.append(bytes(event.data))
                size += len(event.data)
                if size > most:
                    raise Refused(413, f"the body is larger than the limit, {most} bytes")
        except TimeoutError:
            raise Refused(408, f"the body did not arrive within {self.limits.body_seconds:g} s") from None
        call.body = b"".join(parts)

    # ---- out
    async def send(self, event: Any) -> None:
        data = self.http.send(event)
        if data:
            self.writer.write(data)
            await self._written(PIECE)

    async def _written(self, most: int) -> None:
        """Waits until at most so many bytes wait to be sent."""
        transport: Any = self.writer.transport
        if transport.get_write_buffer_size() > most:
            transport.set_write_buffer_limits(high=most)
            try:
                await asyncio.wait_for(self.writer.drain(), self.limits.write_seconds)
            except (OSError, TimeoutError):
                transport.abort()
                raise Gone from None
        if transport.is_closing():
            raise Gone

    async def close(self) -> None:
        """Sends what is left, and drops for a moment what the client still sends: closed at once, the
        connection would be reset, and a client that is sending would not read the answer."""
        try:
            await self._written(0)
            if self.http.their_state in (h11.SEND_BODY, h11.ERROR) and self.writer.can_write_eof():
                self.writer.write_eof()
                async with asyncio.timeout(LINGER):
                    while await self._arrival():
                        self._arriving = None
        except (OSError, TimeoutError, Gone):
            pass
        finally:
            if self._arriving is not None:
                self._arriving.cancel()
            self.writer.close()


class Server:
    """``Server(handle, limits)``: listens, and calls ``handle(call)`` for each request. Refusals of this
    file go to ``refuse(call, refused)``."""

    def __init__(
        self,
        handle: Callable[[Call], Awaitable[None]],
        refuse: Callable[[Call, Refused], Awaitable[None]],
        limits: Limits,
    ) -> None:
        self.handle, self.refuse, self.limits = handle, refuse, limits
        self._clients: dict[asyncio.Task[Any], Connection] = {}
        self._closing = False
        self._listening: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port, where it is 0 a free one.  OSError: it cannot."""
        self._listening = await asyncio.start_server(self._client, host, port, limit=PIECE, backlog=1024)
        return int(self._listening.sockets[0].getsockname()[1])

    async def stop(self, grace: float) -> None:
        """Takes no new connections and requests; waits so many seconds for the answers that are being given."""
        self._closing = True
        if self._listening:
            self._listening.close()
        for task, connection in self._clients.items():
            connection.closing = True
            if connection.idle:
                task.cancel()
        for seconds in grace, 1.0:
            if self._clients:
                await asyncio.wait([*self._clients], timeout=seconds)
            for task in self._clients:
                task.cancel()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, task = Connection(reader, writer, self.limits), asyncio.current_task()
        assert task is not None
        full, connection.closing = len(self._clients) >= self.limits.connections, self._closing
        self._clients[task] = connection
        try:
            if full:
                writer.write(BUSY)  # before anything is read
            else:
                await self._requests(connection)
        except (Gone, OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            await connection.close()
            del self._clients[task]

    async def _requests(self, connection: Connection) -> None:
        seconds = self.limits.head_seconds
        while not connection.closing:
            call: Call | None = None
            try:
                call = await connection.request(seconds)
                if call is None:
                    break
                connection.idle = False
                await connection.read_body(call)
                await self.handle(call)
            except h11.RemoteProtocolError as error:
                await self._refused(connection, call, Refused(error.error_status_hint, str(error)))
            except Refused as error:
                await self._refused(connection, call, error)
            if connection.http.our_state is not h11.DONE or connection.http.their_state is not h11.DONE:
                break
            connection.http.start_next_cycle()
            connection.idle, seconds = True, self.limits.idle_seconds

    async def _refused(self, connection: Connection, call: Call | None, refused: Refused) -> None:
        connection.closing = True
        if connection.http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            nothing = h11.Request(method="GET", target="/", headers=[("host", "-")])
            await self.refuse(call or Call(connection, nothing), refused)


def now() -> float:
    return asyncio.get_running_loop().time()

"""`collage serve`: let a tracker of TVM lend this machine, to time kernels."""

import socket

from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.output import tell
from collage_dsl.measuring.machine import this_machine
from collage_dsl.measuring.remote import address_of
from collage_dsl.measuring.remote_server import Offer, serve


def serve_machine(tracker: str, key: str, host: str, port: int, address: str) -> None:
    """Offer this machine until the process is ended."""
    at = address_of(tracker)
    check_key(key)
    try:
        listener = socket.create_server((host, port), family=_family(host))
    except OSError as error:
        raise CommandError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    offer = Offer(at, key, listener, address)
    here = this_machine()
    tell(f"{here.name}, listening on {host}:{offer.port}; whoever reaches it can run code here")
    serve(offer, tell)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def check_key(key: str) -> None:
    """Raise `CommandError` for a key that is empty or has spaces."""
    if not key or any(character.isspace() for character in key):
        raise CommandError("a key has at least one character, and no spaces")

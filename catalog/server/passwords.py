"""Who may come in over JDBC: a file with a line for each user, `name:scrypt:salt:hash`, which does not hold the passwords."""

from __future__ import annotations

import hashlib
import secrets

from streamtime.server.options import CannotServe

COST = {"n": 2**14, "r": 8, "p": 1}  # 50 ms and 16 MB for each try
NOBODY = "scrypt:00:00"


def line(user: str, password: str) -> str:
    """A line of the file.

    Raises:
        CannotServe: a name or a password that cannot be used.
    """
    if not user or not user.isascii() or not user.isprintable() or ":" in user or user != user.strip() or user.startswith("#"):
        raise CannotServe(f"expected a user's name in ASCII, without colons and spaces around it, and not `#` first, got {user!r}")
    if not password:
        raise CannotServe("the password is empty")
    salt = secrets.token_hex(16)
    return f"{user}:scrypt:{salt}:{_hash(password, salt)}"


def users(text: str, source: str) -> dict[str, str]:
    """The users of a file, and what is known of their passwords. Empty lines, and those that start with #, say nothing."""
    hashes: dict[str, str] = {}
    for number, given in enumerate(text.splitlines(), 1):
        if not given.strip() or given.startswith("#"):
            continue
        user, colon, known = given.rstrip().partition(":")
        kind, *parts = known.split(":")
        if not colon or kind != "scrypt" or len(parts) != 2 or not all(_hex(part) for part in parts):
            raise CannotServe(f"{source}, line {number}: expected user:scrypt:salt:hash, as `streamtime password USER` writes it")
        if user in hashes:
            raise CannotServe(f"{source}, line {number}: a second line for the user {user}")
        hashes[user] = known
    if not hashes:
        raise CannotServe(f"{source}: there is no user in it. `streamtime password USER` writes a line")
    return hashes


def right(known: dict[str, str], user: str, password: str) -> bool:
    """Whether this is the user's password. An unknown user takes as long as a wrong password."""
    _, salt, expected = known.get(user, NOBODY).split(":")
    return secrets.compare_digest(_hash(password, salt), expected)


def _hash(password: str, salt: str) -> str:
    return hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), dklen=32, **COST).hex()


def _hex(text: str) -> bool:
    return bool(text) and len(text) % 2 == 0 and all(c in "0123456789abcdef" for c in text)

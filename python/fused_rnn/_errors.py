"""What the command line says of mistakes."""

from __future__ import annotations

__all__ = ["UserError"]


class UserError(ValueError):
    """A mistake of the user's; the message ends the program."""

"""The exceptions of this package. Their text names the subject, and the cause with its causes."""


class Error(Exception):
    """The base of all exceptions of this package."""


class AddressError(Error, ValueError):
    """A text is no address of a site, or not one to listen on."""


class OptionError(Error, ValueError):
    """An option has a value that it cannot have, or is missing."""


class NotFound(Error, KeyError):
    """There is no dataset, array or file of that name, or this program may not read it."""

    # That of KeyError shows the quotes of a literal.
    __str__ = Exception.__str__


class Changed(Error):
    """The source has changed since the dataset was opened. Open the dataset again."""


class OutOfBounds(Error, IndexError):
    """A selection lies outside the array, or has not its number of axes."""


class SourceError(Error, OSError):
    """A file of the source is missing, too short, damaged, or of a format that is not read."""


class Unreachable(Error, ConnectionError):
    """No node that serves the dataset answers."""


class Forked(Error, RuntimeError):
    """The object was opened before a fork. Open it again in the child."""

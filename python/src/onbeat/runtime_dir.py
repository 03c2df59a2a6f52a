"""Directories in which the processes of one user share objects, and what is checked before a file in them is read.

The directories of this user come first, then those of root. A directory or a file counts only if it belongs to this user
or to root and nobody else can write it. docs/ring.md names the directories.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import OnbeatError

#: Environment variable that names the directory; no other one is used then.
VARIABLE = "ONBEAT_RUNTIME_DIR"
_OF_ROOT = Path("/run/onbeat")
_IN_MEMORY = Path("/dev/shm")
_BY_OTHERS = 0o022
_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link"}


class Refused(OnbeatError):
    """A directory or file is not trusted: another user owns it or can write it, or it is not a regular file."""

    code = "onbeat:ring:refused"


class Directory:
    """An opened directory that has passed the checks."""

    def __init__(self, path: Path, descriptor: int):
        self.path = path
        self.descriptor = descriptor

    def names(self) -> list[str]:
        """Returns the names in this directory, in order."""
        return sorted(os.listdir(self.descriptor))

    def open_file(self, name: str, most_bytes: int) -> int:
        """Opens a file for reading and returns its descriptor. Never blocks.

        Raises `FileNotFoundError`, or `Refused`.
        """
        path = self.path / name
        # Merely opening a device can act on it, so its kind is checked before.
        _check_regular(path, os.stat(name, dir_fd=self.descriptor, follow_symlinks=False))
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            file = os.open(name, flags, dir_fd=self.descriptor)
        except FileNotFoundError:
            raise
        except OSError as why:
            raise Refused(f"cannot open {path}: {why.strerror}") from None
        try:
            found = os.fstat(file)
            _check_regular(path, found)
            if reason := _distrust(found):
                raise Refused(f"cannot open {path}: {reason}")
            if found.st_size > most_bytes:
                size = f"it has {found.st_size >> 20} MiB, and at most {most_bytes >> 20} MiB are read"
                raise Refused(f"cannot open {path}: {size}")
        except BaseException:
            os.close(file)
            raise
        return file


@contextmanager
def existing() -> Iterator[list[Directory]]:
    """Opens the directories in which this user finds objects; those that are missing are left out."""
    opened: list[Directory] = []
    try:
        for path, in_memory in _paths():
            for place in (path, in_memory):
                try:
                    opened.extend([_open(place)] if place else [])
                except FileNotFoundError:
                    continue
                except Refused:
                    # Another user who takes the name of the second one keeps nobody from his files.
                    if place is path:
                        raise
        yield opened
    finally:
        for directory in opened:
            os.close(directory.descriptor)


def _open(path: Path) -> Directory:
    """Opens and checks a directory."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as why:
        sentence = f"cannot open {path}, the directory of shared objects: {why.strerror}"
        raise Refused(f"{sentence}; name another one in {VARIABLE}") from None
    if reason := _distrust(os.fstat(descriptor)):
        os.close(descriptor)
        sentence = f"{path} is not used for shared objects: {reason}"
        raise Refused(f"{sentence}; name another directory in {VARIABLE}")
    return Directory(path, descriptor)


def _paths() -> list[tuple[Path, Path | None]]:
    """Returns the directories of this user and of root, each with the one that its writers use if it is on a disk."""
    if named := os.environ.get(VARIABLE):
        return [(Path(named), None)]
    user = os.geteuid()
    of_root = (_OF_ROOT, _IN_MEMORY / "onbeat-0")
    if user == 0:
        return [of_root]
    in_memory = _IN_MEMORY / f"onbeat-{user}"
    of_system = Path(f"/run/user/{user}")
    if session := os.environ.get("XDG_RUNTIME_DIR"):
        return [(Path(session) / "onbeat", in_memory), of_root]
    if of_system.is_dir():
        return [(of_system / "onbeat", in_memory), of_root]
    return [(in_memory, None), of_root]


def _check_regular(path: Path, found: os.stat_result) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        raise Refused(f"cannot open {path}: it is {_KINDS.get(kind, 'a device')}, not a regular file")


def _distrust(found: os.stat_result) -> str | None:
    """Returns why a file or directory is not trusted."""
    user = os.geteuid()
    if found.st_uid not in (user, 0):
        return f"it belongs to user {found.st_uid}, and user {user} does not trust its content"
    if found.st_mode & _BY_OTHERS:
        return f"others than its owner can write it (mode {stat.S_IMODE(found.st_mode):04o})"
    return None

"""The files of the demo: a copy of a part of a directory tree, which nobody else changes.

Half of the room is for files as they are, of all sizes.  Few trees have many large files, so
the other half is for pieces of an archive of the copied files.
"""

import os
import random
import stat
import tarfile

MB = 1000000
# The sizes of made files, and which part of their room each takes.
MADE = ((97 * MB, 0.5), (10 * MB, 0.3), (MB, 0.2))
MADE_IN = "made-larger"
# Of an order of magnitude of size: trees have very many small files.
MOST_FILES = 2500


def read(path):
    with open(path, "rb") as file:
        return file.read()


def scan(top, without=None):
    """Plain files below a directory, sorted: [(path below it, size)]."""
    files = []
    for where, dirs, names in os.walk(top):
        dirs[:] = sorted(name for name in dirs if os.path.join(where, name) != without)
        for name in sorted(names):
            path = os.path.join(where, name)
            try:
                # names that are no text, and whatever is no plain file, stay out
                path.encode()
                status = os.lstat(path)
            except (OSError, UnicodeEncodeError):
                continue
            if stat.S_ISREG(status.st_mode):
                files.append((os.path.relpath(path, top), status.st_size))
    return files, sum(size for _, size in files)


def pick(files, room):
    """Files in any order, of each order of magnitude of size as many bytes as of the others,
    as long as it has some."""
    classes = {}
    for path, size in files:
        classes.setdefault(len(str(size)), []).append((path, size))
    for several in classes.values():
        random.Random(1).shuffle(several)
        del several[MOST_FILES:]
    taken = dict.fromkeys(classes, 0)
    while classes:
        least = min(classes, key=lambda one: (taken[one], one))
        path, size = classes[least].pop()
        if not classes[least]:
            del classes[least]
        if size <= room:
            room -= size
            taken[least] += size
            yield path


def copy_file(source, target, room):
    """Copy what the file has now, at most room bytes of it; returns None where nothing
    can be read, since the tree may change meanwhile."""
    try:
        with open(source, "rb") as file:
            content = file.read(room)
    except OSError:
        return None
    os.makedirs(os.path.dirname(target), exist_ok=True)
    write(target, content)
    return len(content)


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def pieces(archive, size, count):
    """Parts of a file, one after the other, from the beginning again where it ends."""
    with open(archive, "rb") as file:
        for _ in range(count):
            piece = file.read(size)
            while len(piece) < size:
                file.seek(0)
                piece += file.read(size - len(piece))
            yield piece


def make_archive(top, path):
    with tarfile.open(path, "w") as archive:
        archive.add(top, arcname=os.path.basename(top))


def make_larger(top, room):
    """Files of the sizes that trees have few of, from an archive of the copied ones."""
    archive = top + ".tar"
    make_archive(top, archive)
    directory = os.path.join(top, MADE_IN)
    os.makedirs(directory)
    for size, part in MADE:
        count = int(room * part // size)
        for number, piece in enumerate(pieces(archive, size, count)):
            write(os.path.join(directory, f"{size // MB}MB-{number + 1}"), piece)
        yield f"{count} files of {size // MB} MB made of pieces of a tar archive of these"
    os.unlink(archive)


def copy(source, target, room):
    """Fill a new directory; yields lines that say what was done."""
    os.makedirs(target)
    files, _ = scan(source, without=os.path.dirname(target))
    left, number = room // 2, 0
    for path in pick(files, left):
        size = copy_file(os.path.join(source, path), os.path.join(target, path), left)
        if size is not None:
            left -= size
            number += 1
    yield f"{number} of {len(files)} files copied, {(room // 2 - left) / MB:.0f} MB"
    if number:
        yield from make_larger(target, room // 2)

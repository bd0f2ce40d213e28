#!/usr/bin/python3
"""Punches holes on a disk whose power can be cut (disk.c), and looks at what is left of them.

What a storm with power cuts proves of released space (model/space.py --power) rests on this: the file system
tells where holes are, in three ways that agree; a hole that nobody has flushed may be lost, and then all bytes
are there again, or kept; a hole whose flush was acknowledged is kept; and what lies under holes is discarded.

Root only.  Exit code 0: as it must be; 1: not; 77: it cannot be tried here.
"""

import argparse
import ctypes
import fcntl
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter

import disks

KB = 1024
LENGTH, HOLE_AT, HOLE_LENGTH = 1024 * KB, 256 * KB, 512 * KB
FS_IOC_FIEMAP = 0xC020660B
PUNCH_HOLE_KEEP_SIZE = 3
LIBC = ctypes.CDLL(None, use_errno=True)
STATES = 4
MOST_CUTS = 40


def mapped_bytes(fd):
    """What the map of extents says that a file has."""
    head, extent, most = 32, 56, 32
    answer = bytearray(head + extent * most)
    answer[8:16] = LENGTH.to_bytes(8, "little")
    answer[24:28] = most.to_bytes(4, "little")
    fcntl.ioctl(fd, FS_IOC_FIEMAP, answer)
    count = int.from_bytes(answer[20:24], "little")
    lengths = [answer[head + n * extent + 16:head + n * extent + 24] for n in range(count)]
    return sum(int.from_bytes(length, "little") for length in lengths)


def is_hole(path, content):
    """Is the hole there?  AssertionError if it is neither there nor lost as a whole."""
    fd = os.open(path, os.O_RDONLY)
    try:
        has = (os.fstat(fd).st_blocks * 512, mapped_bytes(fd), os.lseek(fd, 0, os.SEEK_HOLE),
               os.pread(fd, 2 * LENGTH, 0))
    finally:
        os.close(fd)
    punched = content[:HOLE_AT] + bytes(HOLE_LENGTH) + content[HOLE_AT + HOLE_LENGTH:]
    if has == (LENGTH - HOLE_LENGTH, LENGTH - HOLE_LENGTH, HOLE_AT, punched):
        return True
    if has == (LENGTH, LENGTH, LENGTH, content):
        return False
    raise AssertionError(f"blocks {has[0]}, extents {has[1]}, first hole at {has[2]}, content "
                         + ("whole" if has[3] == content else "punched" if has[3] == punched else "of neither kind"))


def write_whole(path, content):
    """A file without a hole, and durable."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    subprocess.run(["sync", "-f", path], check=True)
    if is_hole(path, content):
        raise AssertionError("a file that was written as a whole has a hole")


def punch(path):
    """The program fallocate would flush the file."""
    with open(path, "rb+") as file:
        if LIBC.fallocate(file.fileno(), PUNCH_HOLE_KEEP_SIZE, ctypes.c_int64(HOLE_AT), ctypes.c_int64(HOLE_LENGTH)) != 0:
            raise OSError(ctypes.get_errno(), "punching a hole")


def flush(path):
    """Was the flush acknowledged?"""
    try:
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
        return True
    except OSError:
        return False


def cut(drive, path, content, at_write, pause):
    """Punch; the power goes at that write of the flush, or after it.  Was it acknowledged, and what was said."""
    punch(path)
    if not is_hole(path, content):
        raise AssertionError("a hole that was just punched is not there")
    drive.tell(f"cut write {at_write}")
    acknowledged = flush(path)
    time.sleep(pause)
    # the disk may have been gone since
    cut_before = drive.said().startswith("disk ")
    said = drive.said() if cut_before else drive.cut()
    drive.unmount()
    drive.tell("fix")
    return acknowledged, said


def look_at_states(drive, path, content, acknowledged, rng, seen):
    for number in range(STATES):
        drive.tell(f"state {rng.randrange(2**63)}")
        if not drive.mount():
            seen["beyond repair"] += 1
            drive.cut()
            continue
        kept = is_hole(path, content)
        if acknowledged and not kept:
            raise AssertionError("a hole is lost, whose flush was acknowledged")
        seen["acknowledged" if acknowledged else "kept" if kept else "lost"] += 1
        if number < STATES - 1:
            drive.cut()
            drive.unmount()


def has_seen_all(seen):
    return all(seen[what] for what in ("kept", "lost", "acknowledged", "discarded"))


def run(drive, rng, seen):
    path = os.path.join(drive.mounted, "file")
    content = rng.randbytes(LENGTH)
    for number in range(MOST_CUTS):
        write_whole(path, content)
        # in the middle of the flush, or long after it
        acknowledged, said = cut(drive, path, content, rng.choice([1, 2, 2, 10**6]), number / 20)
        seen["cuts"] += 1
        seen["discarded"] += " 0 of them discards" not in said
        look_at_states(drive, path, content, acknowledged, rng, seen)
        if has_seen_all(seen):
            return
    raise AssertionError(f"not all was seen in {MOST_CUTS} cuts: {dict(seen)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    options = parser.parse_args()
    why = disks.why_not()
    if why:
        print(f"not here: {why}")
        return 77
    top = tempfile.mkdtemp(prefix="sfholes")
    seen = Counter()
    drive = None
    try:
        # nothing is flushed but when we ask for it
        drive = disks.Disks(top, one=True, sizes=("1G",), options="discard,commit=3600")
        run(drive, random.Random(options.seed), seen)
        print(f"sound: seed {options.seed}, " + ", ".join(f"{n} {what}" for what, n in seen.items()))
        return 0
    except Exception:
        print(f"{traceback.format_exc()}FAILED; again with: {sys.argv[0]} --seed {options.seed}")
        return 1
    finally:
        if drive:
            drive.remove()
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

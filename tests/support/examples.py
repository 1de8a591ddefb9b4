"""Examples one after the other in a process of their own, each in a session of its own; what each says goes to files of its name in a folder.

One process for several, since a JVM takes as long to warm up as a story takes to tell.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path


def main(folder: Path, *scripts: str) -> None:
    before = [os.dup(stream) for stream in (1, 2)]
    for script in map(Path, scripts):
        for stream, kind in ((1, "out"), (2, "err")):
            with (folder / f"{script.stem}.{kind}").open("w") as file:
                os.dup2(file.fileno(), stream)
        sys.argv, sys.path[0] = [str(script)], str(script.parent)
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            (folder / f"{script.stem}.code").write_text(str(end.code or 0))
        finally:
            for stream, kept in zip((1, 2), before, strict=True):
                (sys.stdout, sys.stderr)[stream - 1].flush()
                os.dup2(kept, stream)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

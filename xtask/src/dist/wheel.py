"""Packs a directory as a wheel: pack(tree, wheel, time in seconds since 1970)."""

import pathlib
import sys
import time
import zipfile

tree, wheel, epoch = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
# The oldest time that a zip archive can hold is the beginning of 1980.
when = time.gmtime(max(epoch, 315532800))[:6]
paths = [path for path in tree.rglob("*") if path.is_file()]
# Installers read the information about a wheel first, and look for it at the end.
paths.sort(key=lambda path: (".dist-info" in str(path), path.name == "RECORD", str(path)))
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
    for path in paths:
        entry = zipfile.ZipInfo(path.relative_to(tree).as_posix(), when)
        entry.external_attr = (0o100000 | path.stat().st_mode & 0o777) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, path.read_bytes())

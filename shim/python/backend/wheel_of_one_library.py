"""Builds the wheel: the package's files and libxmsched_api.so, with nothing but Python's own library (PEP 517).

The library is taken from $XMSCHED_API_LIBRARY or from lib/ of the source tree, where `make` puts it.
"""

import base64
import csv
import hashlib
import io
import os
import pathlib
import re
import subprocess
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = "libxmsched_api.so"


def _version():
    """git's description of the tree as a version of PEP 440; 0.0.0 where there is no git."""
    chosen = os.environ.get("XMSCHED_VERSION")
    if chosen:
        return chosen
    try:
        count = subprocess.run(
            ["git", "rev-list", "--count", "HEAD"], cwd=HERE, check=True, capture_output=True, text=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "0.0.0"
    return f"0.0.{count}" if re.fullmatch(r"\d+", count) else "0.0.0"


def _library():
    for place in (os.environ.get("XMSCHED_API_LIBRARY"), HERE.parent.parent / "lib" / LIBRARY):
        if place and pathlib.Path(place).is_file():
            return pathlib.Path(place)
    raise FileNotFoundError(f"{LIBRARY}: not built yet: run make, or name it in XMSCHED_API_LIBRARY")


def _metadata(version):
    readme = (HERE / "README.md").read_text()
    return (
        "Metadata-Version: 2.1\nName: xmsched\n"
        f"Version: {version}\n"
        "Summary: Schedule your own work on an accelerator: preemptible queues, hints and policies inside one process\n"
        "License: Apache-2.0\nRequires-Python: >=3.9\nDescription-Content-Type: text/markdown\n\n" + readme
    )


def _tag():
    machine = os.uname().machine
    return f"py3-none-linux_{machine}"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version, tag = _version(), _tag()
    info = f"xmsched-{version}.dist-info"
    files = {f"xmsched/{p.name}": p.read_bytes() for p in sorted((HERE / "xmsched").iterdir()) if p.suffix in (".py", ".typed")}
    files[f"xmsched/{LIBRARY}"] = _library().read_bytes()
    files[f"{info}/METADATA"] = _metadata(version).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: xmsched\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(content)])
    rows.writerow([f"{info}/RECORD", "", ""])
    files[f"{info}/RECORD"] = record.getvalue().encode()
    name = f"xmsched-{version}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            member = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))  # the same tree gives the same wheel
            member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            wheel.writestr(member, content)
    return name


def build_sdist(sdist_directory, config_settings=None):
    version = _version()
    name = f"xmsched-{version}.tar.gz"
    with tarfile.open(pathlib.Path(sdist_directory) / name, "w:gz") as archive:
        for pattern in ("pyproject.toml", "README.md", "backend/*.py", "xmsched/*.py", "xmsched/py.typed"):
            for path in sorted(HERE.glob(pattern)):
                archive.add(path, f"xmsched-{version}/{path.relative_to(HERE)}")
        metadata = _metadata(version).encode()
        member = tarfile.TarInfo(f"xmsched-{version}/PKG-INFO")
        member.size = len(metadata)
        archive.addfile(member, io.BytesIO(metadata))
    return name


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []

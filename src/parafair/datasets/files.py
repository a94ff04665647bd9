"""The files of a data set: in a local folder, or in a cache filled by a download."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

from numpy.typing import NDArray

from parafair.arguments import as_path

VARIABLE = "PARAFAIR_DATA"


@dataclass(frozen=True)
class Source:
    """The files of a data set and where to download them.

    Attributes:
        name: Their folder, inside the folder of all data.
        files: Their names.
        addresses: Where to download them, tried in this order: zip archives that contain them, or
            the file itself if there is only one.
        size: Size of the download, as text.
        terms: Why the files are never downloaded, and how to get them; empty if they may be.
    """

    name: str
    files: tuple[str, ...]
    addresses: tuple[str, ...]
    size: str
    terms: str = ""

    def find(self, folder: str | Path | None = None) -> dict[str, Path]:
        """Return the path of every file, downloading them if there is no local folder.

        Args:
            folder: The folder of all data; by default the environment variable PARAFAIR_DATA.
                Without both, files are downloaded once and kept in a cache, if their terms allow
                it.
        """
        home = data_folder(folder)
        if home is None and self.terms:
            raise FileNotFoundError(
                f"folder is missing, and {VARIABLE} is not set; {self._layout} ({self.terms})"
            )
        if home is None:
            return self._fetch()
        paths = {name: home / self.name / name for name in self.files}
        missing = [str(path) for path in paths.values() if not path.is_file()]
        if missing:
            origin = f"{VARIABLE}={home}" if folder is None else f"folder={str(home)!r}"
            remedy = self.terms and f"({self.terms})"
            remedy = remedy or f"(from {self.addresses[0]}), or set neither to download them"
            raise FileNotFoundError(
                f"{origin} has no file {', '.join(missing)}; {self._layout} {remedy}"
            )
        return paths

    def where(self, folder: str | Path | None = None) -> str:
        """Return where the files would come from, without reading them."""
        home = data_folder(folder)
        if home is not None and all((home / self.name / name).is_file() for name in self.files):
            return str(home / self.name)
        if home is not None:
            return f"not in {home}"
        return "your own copy" if self.terms else f"download, {self.size}"

    @property
    def _layout(self) -> str:
        inside = ", ".join(f"{self.name}/{name}" for name in self.files)
        return f"the folder of all data must hold {inside}"

    def _fetch(self) -> dict[str, Path]:
        """Return the files from the cache, filled from the first address that works."""
        try:
            import pooch
        except ImportError as error:
            raise ImportError(
                f"downloading {self.name} needs pooch; install it with: pip install "
                f"'parafair[data]', or set {VARIABLE} to a folder with the files: {self._layout}"
            ) from error

        cache = Path(pooch.os_cache("parafair")) / self.name
        paths = {name: cache / name for name in self.files}
        if all(path.is_file() for path in paths.values()):
            return paths
        failures: list[str] = []
        for number, address in enumerate(self.addresses):
            try:
                # Servers repack the same files over time, so the loader compares a checksum of the
                # values instead.
                got = pooch.retrieve(address, None, fname=f"download-{number}", path=cache)
                self._unpack(Path(got), cache)
                return paths
            except (OSError, BadZipFile) as error:
                failures.append(f"{address} ({type(error).__name__})")
        raise ConnectionError(
            f"{self.name} could not be downloaded from {' nor from '.join(failures)}; without a "
            f"network, copy the files to a folder and set {VARIABLE}: {self._layout}"
        )

    def _unpack(self, download: Path, cache: Path) -> None:
        """Extract the files, and nothing else, from an archive; a plain file is moved."""
        try:
            if not is_zipfile(download):
                if len(self.files) > 1 or download.read_bytes()[:200].lstrip().startswith(b"<"):
                    raise BadZipFile("the server did not send the archive")
                download.rename(cache / self.files[0])
                return
            with ZipFile(download) as archive:
                members = {Path(member).name: member for member in archive.namelist()}
                for name in self.files:
                    if name not in members:
                        raise BadZipFile(f"the archive has no {name}")
                    part = cache / f"{name}.part"
                    with archive.open(members[name]) as packed, part.open("wb") as target:
                        shutil.copyfileobj(packed, target)
                    part.rename(cache / name)
        finally:
            download.unlink(missing_ok=True)


def data_folder(folder: str | Path | None) -> Path | None:
    """Return the folder of all data: the argument, the environment variable, or None."""
    chosen = folder if folder is not None else os.environ.get(VARIABLE) or None
    if chosen is None:
        return None
    home = as_path("folder", chosen).expanduser()
    if not home.is_dir():
        origin = VARIABLE if folder is None else "folder"
        raise FileNotFoundError(
            f"{origin} must be an existing folder, got {str(home)!r}; check the path"
        )
    return home


def fingerprint(columns: Mapping[str, NDArray[Any]]) -> str:
    """Return a checksum of columns of whole numbers or text, in any file format."""
    total = sha256()
    for name, values in columns.items():
        text = "\n".join(map(str, values.tolist()))
        total.update(f"{name}\n{len(values)}\n{text}\n".encode())
    return total.hexdigest()

"""Manifests for the embedded cluster: as values, texts, files, or folders of files."""
from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

# A mapping, a list of them, a path to a YAML or JSON file (or a folder of such), or a text.
Manifest = Mapping[str, Any] | Sequence[Mapping[str, Any]] | pathlib.Path | str


def manifest_files(path: pathlib.Path) -> list[pathlib.Path]:
    """The file itself, or all YAML and JSON files of a folder by their names."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in ('.yaml', '.yml', '.json'))


def texts_of(manifest: Manifest) -> list[str]:
    if isinstance(manifest, str) and ('\n' in manifest or '{' in manifest):
        return [manifest]
    if isinstance(manifest, (str, pathlib.Path)):
        return [file.read_text() for file in manifest_files(pathlib.Path(manifest))]
    if isinstance(manifest, Mapping):
        return [json.dumps(manifest)]
    return [json.dumps(item) for item in manifest]

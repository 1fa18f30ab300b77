"""Names the image of an OCI layout, for `docker load` and `podman load`.

Docker reads the name from `manifest.json`, as in archives of `docker save`; containerd and podman read
it from an annotation of `index.json`. Both are added to the layout.

Usage: name.py LAYOUT NAME
"""

import json
import sys
from pathlib import Path


def blob(digest: str) -> str:
    """Returns the path of a blob within the layout."""
    return "blobs/" + digest.replace(":", "/")


def main(layout: Path, name: str) -> None:
    index = json.loads((layout / "index.json").read_text())
    (image,) = index["manifests"]
    image["annotations"]["io.containerd.image.name"] = f"docker.io/library/{name}"
    (layout / "index.json").write_text(json.dumps(index))

    manifest = json.loads((layout / blob(image["digest"])).read_text())
    archive = {
        "Config": blob(manifest["config"]["digest"]),
        "RepoTags": [name],
        "Layers": [blob(layer["digest"]) for layer in manifest["layers"]],
    }
    (layout / "manifest.json").write_text(json.dumps([archive]))


main(Path(sys.argv[1]), sys.argv[2])

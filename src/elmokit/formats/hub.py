"""Models on the Hugging Face Hub, where huggingface_hub is installed."""

import re
from pathlib import Path
from typing import Any

from ..errors import FileError, MissingExtra

MODEL_FILES = [
    "*.json", "*.safetensors", "*.hdf5", "*.h5", "*.txt", "*.dic", "*.pkl", "*.index", "*.data-*",
    "*vocab*", "checkpoint",
]  # fmt: skip
"""Names of the files that a model of any format may need."""


def looks_like_hub_id(source: str) -> bool:
    """Whether `source` has the form owner/name."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", source) is not None


def download(repo_id: str, revision: str | None, *, offline: bool = False) -> Path:
    """The local folder of a Hub model, downloaded unless it is in the cache or `offline`."""
    hub = _import_hub(f"{repo_id}: no such folder or file; as the name of a Hub model it needs")
    try:
        folder = hub.snapshot_download(
            repo_id, revision=revision, allow_patterns=MODEL_FILES, local_files_only=offline
        )
        return Path(folder)
    except Exception as e:  # network, authorisation, name: the hub has an error for each
        if offline:
            raise FileError(
                f"{repo_id}: no such folder or file; as the name of a Hub model it is not in the "
                "cache of Hugging Face, and ELMOKIT_OFFLINE is set"
            ) from e
        reason = str(e).strip().split("\n")[0]
        raise FileError(
            f"{repo_id}: no such folder or file, and no model of that name could be fetched "
            f"from the Hub ({type(e).__name__}: {reason})"
        ) from e


def upload(folder: Path, repo_id: str, *, private: bool = False) -> str:
    """Put the files of `folder` into a Hub model, made if need be; returns its address."""
    hub = _import_hub(f"{repo_id}: an upload needs")
    api = hub.HfApi()
    try:
        url = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=folder)
    except Exception as e:
        reason = str(e).strip().split("\n")[0]
        raise FileError(f"{repo_id}: upload failed ({type(e).__name__}: {reason})") from e
    return str(url)


def _import_hub(needs: str) -> Any:
    try:
        import huggingface_hub
    except ImportError as e:
        raise MissingExtra("hub", f"{needs} huggingface_hub, which") from e
    return huggingface_hub

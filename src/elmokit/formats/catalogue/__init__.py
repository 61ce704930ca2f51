"""Published models by name: `Elmo.from_pretrained("elmo-original")` downloads it once.

`models.toml` lists them. `entries` reads that list and knows where files may already be, `fetch`
downloads a file, and `install` puts the files of a model into a folder.
"""

from .entries import ModelEntry as ModelEntry
from .entries import ModelFile as ModelFile
from .entries import find_model as find_model
from .entries import list_models as list_models
from .install import download_model as download_model

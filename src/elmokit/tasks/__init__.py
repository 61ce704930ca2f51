"""Task models on a frozen biLM: the second half of ELMo (paper, sections 3.3 and 4).

A task is one file (`ner`, `classify`, `snli`, `srl`) or folder (`squad`, `coref`): its settings,
how its files are read, its model and its score. `parts` holds what the models share, such as
`TaskEmbedding`, which knows where ELMo goes; `runs` trains, resumes and loads them; `registry`
finds them by name; `results` are what they say about a text.
"""

from .config import ElmoPlacement as ElmoPlacement
from .config import TaskConfig as TaskConfig
from .config import TrainerConfig as TrainerConfig
from .config import WordsConfig as WordsConfig
from .parts.bilm import FrozenLayers as FrozenLayers
from .parts.bilm import load_bilm as load_bilm
from .parts.embedding import TaskEmbedding as TaskEmbedding
from .parts.embedding import TokenBatch as TokenBatch
from .registry import find_task as find_task
from .results import Alignment as Alignment
from .results import Argument as Argument
from .results import CorefResult as CorefResult
from .results import Entity as Entity
from .results import ExtractResult as ExtractResult
from .results import LabelResult as LabelResult
from .results import NerResult as NerResult
from .results import OtherResult as OtherResult
from .results import Result as Result
from .results import ScoredSentence as ScoredSentence
from .results import ScoredText as ScoredText
from .results import SnliResult as SnliResult
from .results import SquadResult as SquadResult
from .results import SrlFrame as SrlFrame
from .results import SrlResult as SrlResult
from .results import TextSpan as TextSpan
from .results import TranslateResult as TranslateResult
from .runs.describe import describe_run as describe_run
from .runs.load import TrainedTask as TrainedTask
from .runs.load import load_seeds as load_seeds
from .runs.load import load_task as load_task
from .runs.train import train_task as train_task
from .task import LabelSets as LabelSets
from .task import Read as Read
from .task import Scores as Scores
from .task import Task as Task
from .task import TaskModel as TaskModel

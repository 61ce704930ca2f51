"""A snapshot of the public names and signatures: change it on purpose."""

import inspect
from dataclasses import fields
from pathlib import Path

import elmokit
from elmokit import Elmo, ScalarMix, model, tasks
from elmokit.search import Match


def parameters(function: object) -> list[str]:
    return [str(p.name) for p in inspect.signature(function).parameters.values()]  # type: ignore[arg-type]


def test_exported_names() -> None:
    assert sorted(elmokit.__all__) == [
        "BiLm", "BiLmOutput", "Corpus", "Elmo", "ElmoConfig", "ElmoError", "PrepareConfig",
        "PretrainConfig", "ScalarMix", "__version__", "download_model", "list_models", "load_task",
        "prepare", "pretrain", "read_vectors", "train_task",
    ]  # fmt: skip
    assert all(hasattr(elmokit, name) for name in elmokit.__all__)


def test_the_package_says_that_it_is_typed() -> None:
    # `make test` runs on the installed wheel, so this file is shipped.
    assert (Path(elmokit.__file__).parent / "py.typed").is_file()


def test_public_methods_of_elmo() -> None:
    inherited = {name for name in dir(elmokit.BiLm.__base__)}
    own = sorted(n for n in dir(Elmo) if not n.startswith("_") and n not in inherited)
    assert own == [
        "add_mix", "annotate", "clear_cache", "device", "dim", "dtype", "embed", "embed_stream",
        "encode", "engine", "from_checkpoint", "from_files", "from_pretrained", "indexer",
        "num_layers", "perplexity", "push_to_hub",
        "reset_state", "save_pretrained", "score", "score_stream", "similarity", "substitutes",
        "to_checkpoint", "token_vectors", "tokenize", "tokenize_with_offsets", "warm_up",
    ]  # fmt: skip


def test_signatures() -> None:
    loading = ["device", "dtype", "state", "tokenizer", "normalization", "requires_grad"]
    loading += ["engine", "precision", "cache_words"]
    assert parameters(Elmo.from_pretrained) == ["source", "revision", *loading]
    assert parameters(Elmo.from_files) == [
        "options", "weights", "vocab", "softmax", "token_embeddings", *loading,
    ]  # fmt: skip
    assert parameters(Elmo.embed) == [
        "self", "inputs", "layers", "direction", "sentences", "batch_size", "show_progress_bar",
    ]  # fmt: skip
    assert parameters(Elmo.annotate) == ["self", "inputs", "layers", "sentences", "batch_size"]
    assert parameters(Elmo.embed_stream) == [
        "self", "inputs", "layers", "direction", "sentences", "batch_size",
    ]  # fmt: skip
    assert parameters(Elmo.encode) == [
        "self", "inputs", "layers", "pooling", "remove", "normalize_embeddings", "empty",
        "sentences", "batch_size", "show_progress_bar",
    ]  # fmt: skip
    assert parameters(Elmo.add_mix) == [
        "self", "name", "layer_norm", "dropout", "trainable", "replace",
    ]  # fmt: skip
    assert parameters(Elmo.score) == ["self", "inputs", "sentences", "batch_size"]
    assert parameters(Elmo.score_stream) == ["self", "inputs", "sentences", "batch_size"]
    assert parameters(Elmo.perplexity) == ["self", "inputs", "streams", "sentences", "batch_size"]
    assert parameters(Elmo.substitutes) == ["self", "text", "k", "index"]
    assert parameters(ScalarMix) == ["num_layers", "layer_norm", "dropout", "trainable"]


def test_fields_of_results() -> None:
    assert [f.name for f in fields(model.Sentence)] == ["text", "tokens", "offsets", "vectors"]
    scores = [f.name for f in fields(model.SentenceScore)]
    assert scores == [
        "forward", "backward", "num_tokens", "num_unknown", "num_characters", "num_unknown_bytes",
        "forward_tokens", "backward_tokens",
    ]  # fmt: skip
    assert model.Perplexity._fields == (
        "forward", "backward", "mean", "num_tokens", "num_unknown", "bits_per_character",
    )  # fmt: skip
    assert model.BitsPerCharacter._fields == ("forward", "backward", "mean")
    assert model.Substitute._fields == ("word", "rank", "probability", "forward", "backward")
    assert model.Substitutes._fields == ("best", "original")
    assert [f.name for f in fields(Match)] == [
        "score", "index", "position", "tokens", "text", "start", "end",
    ]  # fmt: skip


def test_results_of_tasks() -> None:
    expected = {
        tasks.NerResult: ["entities", "tokens", "tags"],
        tasks.LabelResult: ["label", "probabilities"],
        tasks.SnliResult: ["label", "probabilities", "premise", "hypothesis"],
        tasks.SrlResult: ["frames", "tokens"],
        tasks.CorefResult: ["clusters", "tokens"],
        tasks.SquadResult: ["id", "question", "answer", "start", "end", "probability"],
        tasks.TranslateResult: ["translation", "hypotheses", "alignment"],
        tasks.ExtractResult: ["summary", "sentences"],
        tasks.OtherResult: ["values"],
    }
    for kind, names in expected.items():
        assert [f.name for f in fields(kind)] == ["task", "text", *names]
    assert [f.name for f in fields(tasks.Entity)] == ["text", "label", "start", "end", "score"]
    assert [f.name for f in fields(tasks.Argument)] == ["text", "label", "start", "end"]
    assert [f.name for f in fields(tasks.SrlFrame)] == ["predicate", "arguments", "tags"]
    assert [f.name for f in fields(tasks.TextSpan)] == ["text", "start", "end"]

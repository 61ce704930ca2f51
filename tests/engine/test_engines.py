"""Every engine gives the numbers of the plain module, on every instruction set of the machine."""

import copy
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import ENGINES, make_tiny, models, tiny_config

from elmokit import Elmo, ElmoConfig
from elmokit.config import CharCnnConfig, EncoderConfig, LstmConfig
from elmokit.engine import Engine, Request, native
from elmokit.errors import ConfigError
from elmokit.nn import BiLm, BiLmState


def random_words(num_words: int, seed: int = 0) -> list[str]:
    generator = np.random.default_rng(seed)
    letters = list("abcdefghijklmnop가나다é🙂")
    return ["".join(generator.choice(letters, n)) for n in generator.integers(0, 20, num_words)]


def batch_of(lengths: list[int], seed: int = 0) -> list[list[str]]:
    words = random_words(50, seed)
    generator = np.random.default_rng(seed)
    return [[words[i] for i in generator.integers(0, 50, n)] for n in lengths]


def plain_layers(
    elmo: Elmo, sentences: list[list[str]], state: BiLmState | None
) -> list[torch.Tensor]:
    """All layers by `nn.BiLm`, without the boundaries."""
    batch = elmo._embedder.batch(sentences)
    with torch.inference_mode():
        x = elmo.bilm.encoder(elmo._embedder.ids(batch.words))
        padded = x.new_zeros(len(sentences), int(batch.lengths.max()), x.shape[1])
        rows = np.split(batch.index, np.cumsum(batch.lengths)[:-1])
        for i, row in enumerate(rows):
            padded[i, : len(row)] = x[torch.from_numpy(row)]
        layers = elmo.bilm(padded, torch.from_numpy(batch.lengths), state).layers
    return [layers[:, i, 1 : len(row) - 1] for i, row in enumerate(rows)]


def engine_layers(
    elmo: Elmo, name: str, sentences: list[list[str]], state: BiLmState | None = None
) -> list[torch.Tensor]:
    """All layers by an engine of its own, from words to vectors."""
    engine = Engine(elmo.bilm, name)
    batch = elmo._embedder.batch(sentences)
    request = Request(torch.eye(elmo.num_layers), with_state=True)
    with torch.inference_mode():
        x = engine.token_vectors(elmo._embedder.ids(batch.words))
        vectors, _ = engine.run(x, batch.index, batch.lengths, request, state)
    return list(torch.split(vectors, [len(s) for s in sentences], dim=1))


def assert_equal_layers(
    got: list[torch.Tensor], want: list[torch.Tensor], relative: float = 1e-5
) -> None:
    scale = max(float(w.abs().max()) for w in want if w.numel())
    for a, b in zip(got, want, strict=True):
        assert float((a - b).abs().max() if a.numel() else 0) <= relative * scale


@pytest.fixture(params=ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_the_machine_has_a_kernel_or_says_why() -> None:
    assert native.available() == () or native.available()[0] == "portable"


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(
    "lengths",
    [[1], [0], [200], [1] * 512, list(range(1, 201, 7)), [30, 0, 1, 30, 2, 17] * 6],
    ids=["one token", "empty", "200 tokens", "512 words", "1 to 200", "mixed"],
)
def test_engine_equals_the_module(
    engine_name: str, lengths: list[int], threads: int, num_threads: None
) -> None:
    torch.set_num_threads(threads)
    elmo = make_tiny()
    sentences = batch_of(lengths)
    state = None
    if len(lengths) < 50:
        state = BiLmState(torch.randn(2, 2, len(lengths), 16), torch.randn(2, 2, len(lengths), 32))
    want = plain_layers(elmo, sentences, state)
    if sum(lengths):
        assert_equal_layers(engine_layers(elmo, engine_name, sentences, state), want)


@given(elmo=models(), seed=st.integers(0, 10), lengths=st.lists(st.integers(0, 12), min_size=1))
@settings(max_examples=40)
def test_engines_agree_on_any_architecture(elmo: Elmo, seed: int, lengths: list[int]) -> None:
    sentences = batch_of(lengths, seed)
    want = plain_layers(elmo, sentences, None)
    if sum(lengths):
        for name in ENGINES:
            assert_equal_layers(engine_layers(elmo, name, sentences), want)


@pytest.mark.parametrize("state", ["zero", "warm", "carry"])
def test_all_states_agree_with_torch(engine_name: str, state: str) -> None:
    sentences = batch_of([5, 9, 2])
    results = []
    for name in ("torch", engine_name):
        torch.manual_seed(3)
        elmo = Elmo(tiny_config(state=state), engine=name).eval()
        results.append([v for _ in range(3) for v in elmo.embed(sentences, layers="all")])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_repeats_are_bit_equal(engine_name: str) -> None:
    elmo = Elmo(tiny_config(), engine=engine_name).eval()
    sentences = batch_of([5, 9, 2, 30])
    first = elmo.embed(sentences, layers="all")
    elmo.embed(batch_of([4, 8], seed=1))
    for a, b in zip(first, elmo.embed(sentences, layers="all"), strict=True):
        np.testing.assert_array_equal(a, b)
    elmo.clear_cache()
    for a, b in zip(first, elmo.embed(sentences, layers="all"), strict=True):
        np.testing.assert_array_equal(a, b)


def test_concurrent_calls_give_their_own_results(engine_name: str, num_threads: None) -> None:
    torch.set_num_threads(2)
    elmo = Elmo(tiny_config(), engine=engine_name).eval()
    batches = [batch_of([n, 3, 2 * n], seed=n) for n in range(1, 13)]
    alone = [elmo.embed(batch) for batch in batches]
    elmo.clear_cache()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(elmo.embed, batches))
    for a, b in zip(alone, together, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-6)


def test_engine_follows_changed_weights(engine_name: str) -> None:
    elmo = Elmo(tiny_config(), engine=engine_name).eval()
    sentences = batch_of([5, 3])
    before = elmo.embed(sentences)
    with torch.no_grad():
        elmo.bilm.forward_lm.layers[0].bias.add_(0.5)
        elmo.bilm.encoder.char_cnn.convolutions[0].bias.add_(0.5)
    after = elmo.embed(sentences, layers="all")
    assert not np.allclose(before[0], after[0].mean(axis=0))
    want = plain_layers(elmo, sentences, None)
    assert_equal_layers([torch.from_numpy(v) for v in after], want)


def test_model_can_be_copied_and_pickled(engine_name: str, num_threads: None) -> None:
    torch.set_num_threads(2)
    elmo = Elmo(tiny_config(), engine=engine_name).eval()
    sentences = batch_of([5, 3])
    want = elmo.embed(sentences)
    for twin in (copy.deepcopy(elmo), pickle.loads(pickle.dumps(elmo))):
        for a, b in zip(want, twin.embed(sentences), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)
        assert twin.bilm is twin._embedder.engine.bilm is not elmo.bilm


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_engine_works_after_a_fork(num_threads: None) -> None:
    elmo = make_tiny()
    sentences = batch_of([5, 9, 3, 8] * 5)
    elmo.embed(sentences)
    torch.set_num_threads(1)  # torch's own threads do not survive a fork; ours must
    meeting, pool = threading.Barrier(2), native._pool(3)
    for thread in [pool.submit(meeting.wait) for _ in range(2)]:
        thread.result()  # both threads run now; a pool starts them when it needs them
    child = os.fork()
    if child == 0:
        try:
            native._pool(3).submit(int).result(timeout=300)
            os._exit(0)
        finally:
            os._exit(1)  # the rest of the tests is the parent's
    assert os.waitpid(child, 0)[1] == 0


def test_float64_runs_in_torch() -> None:
    elmo = make_tiny().double()
    assert elmo.engine == "torch"
    assert elmo.embed(batch_of([3]))[0].shape == (3, 32)


@pytest.mark.parametrize("name", ["cuda", "native:mmx", "torch:avx2", ""])
def test_unknown_engine_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match="engine="):
        Engine(BiLm(tiny_config()), name)


def test_missing_kernel_falls_back_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library", lambda: None)
    monkeypatch.delenv("ELMOKIT_ISA", raising=False)
    elmo = make_tiny()
    assert elmo.engine == "torch"
    with pytest.raises(ConfigError, match="no kernel at all"):
        Engine(elmo.bilm, "native")


def test_character_ids_out_of_range_do_not_reach_the_kernel() -> None:
    if not native.available():
        pytest.skip("the native kernel was not built")
    from elmokit.nn import TokenIds

    engine = Engine(make_tiny().bilm, "native")
    with pytest.raises(IndexError, match="outside"):
        engine.token_vectors(TokenIds(torch.full((1, 50), 262), None))


@pytest.mark.parametrize("shape", ["small", pytest.param("original", marks=pytest.mark.slow)])
def test_official_shapes_agree(engine_name: str, shape: str) -> None:
    if engine_name == "native:portable" and shape == "original":
        pytest.skip("half a minute for what the small shape shows as well")
    torch.manual_seed(0)
    config = ElmoConfig()
    if shape == "original":
        cnn = CharCnnConfig(num_highway=2)
        lstm = LstmConfig(dim=4096, projection_dim=512)
        config = ElmoConfig(encoder=EncoderConfig(char_cnn=cnn), lstm=lstm)
    elmo = Elmo(config).eval()
    sentences = batch_of([12, 7, 7, 1])
    want = plain_layers(elmo, sentences, None)
    assert_equal_layers(engine_layers(elmo, engine_name, sentences), want)


def test_int8_is_close_and_says_where_it_loses(caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    elmo = Elmo(tiny_config(), precision="int8").eval()
    assert elmo.engine == "torch (int8)"
    assert "slower than float32 for LSTMs of 32 units" in caplog.text
    sentences = batch_of([12, 7])
    exact = plain_layers(elmo, sentences, None)
    for a, b in zip(elmo.embed(sentences, layers="all"), exact, strict=True):
        cosine = torch.cosine_similarity(torch.from_numpy(a), b, dim=-1)
        assert cosine.min() > 0.98
    with pytest.raises(ConfigError, match="precision="):
        Elmo(tiny_config(), precision="int4")  # type: ignore[arg-type]

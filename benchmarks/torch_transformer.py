"""The causal transformer the way it is usually written in PyTorch: eager, autograd, `torch.optim.Adam`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Causal attention of several heads.

    Args:
        d_model: width.
        n_heads: number of heads; each is d_model / n_heads wide.
        fused: by `scaled_dot_product_attention`; else by scores, a mask and a softmax.
    """

    def __init__(self, d_model: int, n_heads: int, fused: bool):
        super().__init__()
        self.query, self.key, self.value, self.output = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4)
        )
        self.n_heads, self.fused = n_heads, fused

    def forward(self, x: Tensor, later: Tensor) -> Tensor:
        """The output `(B, n, model)` of `x (B, n, model)`; `later (n, n)` is true where a key is masked."""
        q, k, v = (self._split(layer(x)) for layer in (self.query, self.key, self.value))
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            mixed = torch.softmax(scores.masked_fill(later, -torch.inf), dim=-1) @ v
        return self.output(mixed.transpose(1, 2).reshape(x.shape))

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)


class Transformer(nn.Module):
    """Embedding, attention layers on a residual stream, unembedding."""

    def __init__(self, d_vocab: int, d_model: int, n_layers: int, n_heads: int, fused: bool):
        super().__init__()
        self.embedding = nn.Embedding(d_vocab, d_model)
        self.layers = nn.ModuleList(Attention(d_model, n_heads, fused) for _ in range(n_layers))
        self.output = nn.Linear(d_model, d_vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits `(B, n, d_vocab)` of `tokens (B, n)`."""
        n = tokens.shape[1]
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + layer(x, later)
        return self.output(x)


class Training:
    """The model, Adam, and the loss at all positions.

    Args:
        initial: the engine's parameters of one replica, without the replica axis.
        lr: learning rate.
        fused: see `Attention`.
    """

    def __init__(self, initial: Mapping[str, np.ndarray], lr: float, fused: bool):
        d_vocab, d_model = initial["W_0"].shape
        n_layers, n_heads = initial["W_Q"].shape[:2]
        self.model = Transformer(d_vocab, d_model, n_layers, n_heads, fused)
        self.model.to(torch.from_numpy(initial["W_0"]).dtype)
        with torch.no_grad():
            for name, weights in self._weights().items():
                for weight, value in zip(weights, _as_stored(name, initial[name]), strict=True):
                    weight.copy_(torch.from_numpy(value))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean loss, with its gradients left in the parameters; tokens and targets `(B, n)`."""
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        return loss

    def step(self, tokens: Tensor, targets: Tensor) -> None:
        """One update."""
        self.loss(tokens, targets)
        self.optimizer.step()

    def gradients(self) -> dict[str, list[np.ndarray]]:
        """Gradients by the engine's names, one a layer, as PyTorch stores them."""
        return {name: [w.grad.numpy() for w in ws] for name, ws in self._weights().items()}  # type: ignore

    def differences(self, gradients: Mapping[str, np.ndarray]) -> list[float]:
        """Largest difference from the engine's gradients, for each, relative to its largest entry."""
        return [
            float(np.abs(np.stack(_as_stored(name, gradients[name])) - np.stack(theirs)).max())
            / float(np.abs(np.stack(theirs)).max())
            for name, theirs in self.gradients().items()
        ]

    def _weights(self) -> dict[str, list[Tensor]]:
        attentions = {"W_Q": "query", "W_K": "key", "W_V": "value", "W_O": "output"}
        return {
            "W_0": [self.model.embedding.weight],
            **{
                name: [getattr(a, part).weight for a in self.model.layers]
                for name, part in attentions.items()
            },
            "W_1": [self.model.output.weight],
        }


def _as_stored(name: str, array: np.ndarray) -> list[np.ndarray]:
    """The engine's array as PyTorch's matrices: heads side by side, `nn.Linear` transposed."""
    if name in ("W_0", "W_1"):
        return [array if name == "W_0" else array.T]
    n_layers, n_heads, rows, columns = array.shape
    if name == "W_O":
        return list(array.reshape(n_layers, n_heads * rows, columns).transpose(0, 2, 1))
    return list(array.transpose(0, 1, 3, 2).reshape(n_layers, n_heads * columns, rows))

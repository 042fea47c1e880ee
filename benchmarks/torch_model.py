"""The headline model the way it is usually written in PyTorch: eager, one vector a position, autograd."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn


class PureAttention(nn.Module):
    """One head of full attention over positions.

    Args:
        d_vocab: number of tokens.
        d_model: width.
        last_query: attend from the last position only. The loss needs no more, but the usual code attends
            from all of them.
    """

    def __init__(self, d_vocab: int, d_model: int, last_query: bool = False):
        super().__init__()
        self.embedding = nn.Embedding(d_vocab, d_model)
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.output = nn.Linear(d_model, d_vocab, bias=False)
        self.last_query = last_query

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits `(B, Q, d_vocab)` of `tokens (B, s)`."""
        x = self.embedding(tokens)
        queries = self.query(x[:, -1:] if self.last_query else x)
        scores = queries @ self.key(x).transpose(-2, -1) / x.shape[-1] ** 0.5
        return self.output(torch.softmax(scores, dim=-1) @ x)

    def weights(self) -> dict[str, Tensor]:
        """Parameters by the engine's names, as PyTorch stores them (`nn.Linear` transposed)."""
        return {
            "W_0": self.embedding.weight,
            "W_Q": self.query.weight,
            "W_K": self.key.weight,
            "W_1": self.output.weight,
        }


class Training:
    """The model, Adam, and the loss at the last position.

    Args:
        initial: the engine's parameters of one replica, `W_0 (token, model)` and so on.
        lr: learning rate.
        last_query: see `PureAttention`.
    """

    def __init__(self, initial: Mapping[str, np.ndarray], lr: float, last_query: bool = False):
        d_vocab, d_model = initial["W_0"].shape
        self.model = PureAttention(d_vocab, d_model, last_query).to(torch.from_numpy(initial["W_0"]).dtype)
        with torch.no_grad():
            for name, weight in self.model.weights().items():
                weight.copy_(torch.from_numpy(_turn(name, initial[name])))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss()

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Loss at the last position, with its gradients left in the parameters."""
        self.optimizer.zero_grad()
        loss: Tensor = self.criterion(self.model(tokens)[:, -1], targets)
        loss.backward()
        return loss

    def step(self, tokens: Tensor, targets: Tensor) -> None:
        """One update."""
        self.loss(tokens, targets)
        self.optimizer.step()

    def gradients(self) -> dict[str, np.ndarray]:
        """Gradients by the engine's names and in its shapes."""
        return {name: _turn(name, w.grad.numpy()) for name, w in self.model.weights().items()}  # type: ignore


def sample(pi: Tensor, transition: Tensor, n_ctx: int, batch: int) -> tuple[Tensor, Tensor]:
    """Contexts `(B, s)` and the tokens after them `(B,)`, drawn position by position."""
    tokens = [torch.multinomial(pi, batch, replacement=True)]
    for _ in range(n_ctx):
        tokens.append(torch.multinomial(transition[tokens[-1]], 1).squeeze(1))
    return torch.stack(tokens[:-1], dim=1), tokens[-1]


def _turn(name: str, weight: np.ndarray) -> np.ndarray:
    return weight if name == "W_0" else weight.T

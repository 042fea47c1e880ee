"""Every shipped architecture once more, in PyTorch, float64, one replica, its gradients by autograd.

Written from the formulas in the architectures' documentation, plainly and site by site, to have nothing in
common with the engine but these: no representations, no replicas, no parts, no backward passes.
"""

import math

import torch
from torch.nn import functional


def loss_and_gradients(weights, model, contexts):
    """The loss in nats, and its gradient for every parameter, as NumPy arrays.

    Args:
        weights: NumPy arrays by name, in the shapes that a trajectory has.
        model: the spec's model section.
        contexts: `Sampled` or `Population`.
    """
    w = {name: torch.tensor(array, requires_grad=True) for name, array in weights.items()}
    loss = contexts.loss(w, model)
    loss.backward()
    none = {name: torch.zeros_like(t) for name, t in w.items()}
    return loss.item(), {name: (none[name] if t.grad is None else t.grad).numpy() for name, t in w.items()}


class Sampled:
    """Contexts `tokens (B, n)` and what follows each of their places, `following (B, n)`."""

    def __init__(self, tokens, following, loss_positions):
        self.tokens, self.following = torch.tensor(tokens), torch.tensor(following)
        self.first = 0 if loss_positions == "all" else -1

    def loss(self, w, model):
        """Mean over contexts and over the places that count."""
        found = logits(w, model, self.tokens)[:, self.first :]
        return functional.cross_entropy(found.flatten(0, 1), self.following[:, self.first :].flatten())


class Population:
    """Infinitely long contexts of a chain: token j has the share π_j in every one."""

    def __init__(self, pi, transition):
        self.pi, self.transition = torch.tensor(pi), torch.tensor(transition)

    def loss(self, w, model):
        """Σ_i π_i CE(P_i, softmax(logits_i))."""
        tokens = torch.arange(len(self.pi))[None]
        log_probabilities = torch.log_softmax(logits(w, model, tokens, torch.log(self.pi))[0], dim=-1)
        return -(self.pi[:, None] * self.transition * log_probabilities).sum()


def logits(w, model, tokens, log_weights=None):
    """`(B, n, d_vocab)` for `tokens (B, n)`; `log_weights (n)` if a site stands for many."""
    x = w["W_0"][tokens] + places(w, model, tokens.shape[1])
    allowed = torch.zeros(tokens.shape[1], tokens.shape[1], dtype=x.dtype)
    if model.attention == "causal" and log_weights is None:
        allowed = allowed.masked_fill(torch.ones_like(allowed).triu(1).bool(), -math.inf)
    bias = allowed if log_weights is None else allowed + log_weights
    bias = bias.expand(len(tokens), -1, -1)
    if model.mask_token is not None:
        bias = bias + torch.where(tokens == model.mask_token, -1e9, 0.0)[:, None, :]
    if model.architecture == "transformer":
        x = transformer(w, model, x, bias)
    else:
        attended = attention(w, 0, x, bias, model.d_model**-0.5 if model.scale == "inv_sqrt" else 1.0)
        x = attended + x if model.architecture == "residual" else attended
    return x @ w["W_1"]


def transformer(w, model, x, bias):
    """States after all layers, and after the last normalisation if they are normalised before."""
    d_head = w["W_Q"].shape[-1]
    scale = 1 / math.sqrt(d_head) if model.scale == "inv_sqrt" else 1.0
    for layer in range(model.layers):

        def attend(h, layer=layer):
            return attention(w, layer, h, bias, scale)

        def perceive(h, layer=layer):
            nonlinearity = {"relu": torch.relu, "gelu": gelu}[model.mlp.activation]
            return nonlinearity(h @ w["W_in"][layer]) @ w["W_out"][layer]

        for block, inner in enumerate([attend] if model.mlp is None else [attend, perceive]):
            if model.layer_norm == "none":
                x = x + inner(x)
            else:
                gain, shift = w["gain"][layer, block], w["shift"][layer, block]
                if model.layer_norm == "pre":
                    x = x + inner(normalised(x, gain, shift))
                else:
                    x = normalised(x + inner(x), gain, shift)
    return normalised(x, w["gain_end"], w["shift_end"]) if model.layer_norm == "pre" else x


def attention(w, layer, x, bias, scale):
    """Heads one after the other: softmax(scale · (x W_Q)(x W_K)ᵀ + bias) (x W_V), side by side, times W_O."""
    n_heads, d_head = w["W_Q"].shape[1], w["W_Q"].shape[-1]
    outputs = []
    for head in range(n_heads):
        q, k = x @ w["W_Q"][layer, head], x @ w["W_K"][layer, head]
        own = x[..., head * d_head : (head + 1) * d_head]
        v = x @ w["W_V"][layer, head] if "W_V" in w else own
        mixed = torch.softmax(scale * torch.einsum("bqi,bki->bqk", q, k) + bias, dim=-1) @ v
        outputs.append(mixed @ w["W_O"][layer, head] if "W_O" in w else mixed)
    return sum(outputs) if "W_O" in w else torch.cat(outputs, dim=-1)


def places(w, model, n):
    """What is added to embeddings for the place, `(n, model)`."""
    if model.positions == "learned":
        return w["W_P"][:n]
    found = torch.zeros(n, model.d_model, dtype=torch.float64)
    if model.positions == "sinusoidal":
        for place in range(n):
            for column in range(model.d_model):
                angle = place / 10000 ** (2 * (column // 2) / model.d_model)
                found[place, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return found


def normalised(x, gain, shift):
    """Layer normalisation over the model axis."""
    return functional.layer_norm(x, x.shape[-1:], gain, shift, eps=1e-5)


def gelu(x):
    """GELU by its tanh approximation."""
    return functional.gelu(x, approximate="tanh")

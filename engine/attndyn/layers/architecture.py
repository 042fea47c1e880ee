"""The architecture protocol: declared parameters, a loss with its gradients, and the attention map."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from attndyn.backend import Array, Backend
from attndyn.data.contexts import Contexts
from attndyn.layers.parameters import Parameter
from attndyn.spec.base import ModelOptions


class Architecture(ABC):
    """Base of all architectures. One file each, registered with `@attndyn.registry.architecture("name")`.

    An architecture holds no parameters: it is given those of all replicas, with the replica axis first.

    Args:
        options: the spec's model section.
        d_vocab: number of tokens.
        backend: where the arrays live.
    """

    name: ClassVar[str]
    Options: ClassVar[type[ModelOptions]]

    def __init__(self, options: ModelOptions, d_vocab: int, backend: Backend):
        self.options = options
        self.d_vocab = d_vocab
        self.backend = backend

    @property
    @abstractmethod
    def parameters(self) -> tuple[Parameter, ...]:
        """Declarations of all parameters, in the order in which they are stored."""

    @property
    @abstractmethod
    def representations(self) -> tuple[str, ...]:
        """Representations of a context that are exact for this architecture."""

    @abstractmethod
    def cost(self, representation: str, n_ctx: int, n_contexts: int, n_queries: int) -> float:
        """Rough number of multiplications of a forward pass, to choose the cheapest exact representation."""

    @abstractmethod
    def loss_and_gradients(
        self, parameters: Mapping[str, Array], contexts: Contexts
    ) -> tuple[Array, dict[str, Array]]:
        """The loss `(R,)` in nats and its gradient for every parameter, `(R, *shape)`."""

    @abstractmethod
    def attention(self, parameters: Mapping[str, Array], log_weights: Array) -> Array:
        """Attention map from query token to key token, `(R, layer, head, query, key)`; rows sum to 1.

        Args:
            parameters: those of all replicas.
            log_weights: log-weight of every token as a key, `(R, d_vocab)`.
        """

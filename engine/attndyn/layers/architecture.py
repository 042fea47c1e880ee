"""The architecture protocol: declared parameters, a loss with its gradients, and the attention map."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from attndyn.backend import Array, Backend
from attndyn.data.contexts import Contexts
from attndyn.errors import PluginError
from attndyn.layers.law import Law
from attndyn.layers.parameters import Parameter
from attndyn.spec.base import ModelOptions

if TYPE_CHECKING:
    from attndyn.layers.stream import Stream


class Architecture(ABC):
    """Base of all architectures. One file each, registered with `@attndyn.registry.architecture("name")`.

    An architecture holds no parameters: it is given those of all replicas, with the replica axis first.

    Args:
        options: the spec's model section.
        d_vocab: number of tokens.
        n_ctx: number of positions in a context.
        backend: where the arrays live.

    Attributes:
        stream: what it computes, where that is a `Stream`; conservation laws are then derived from it.
    """

    name: ClassVar[str]
    Options: ClassVar[type[ModelOptions]]
    stream: Stream | None = None

    def __init__(self, options: ModelOptions, d_vocab: int, n_ctx: int, backend: Backend):
        self.options = options
        self.d_vocab = d_vocab
        self.n_ctx = n_ctx
        self.backend = backend

    @property
    @abstractmethod
    def parameters(self) -> tuple[Parameter, ...]:
        """Declarations of all parameters, in the order in which they are stored."""

    @abstractmethod
    def representations(self, loss_positions: str) -> tuple[str, ...]:
        """Representations of a context that are exact for this architecture, the loss at `last` or `all`."""

    @abstractmethod
    def cost(self, representation: str, n_ctx: int, n_contexts: int, n_queries: int) -> float:
        """Rough number of multiplications of a forward pass, to choose the cheapest exact representation."""

    @abstractmethod
    def loss_and_gradients(
        self, parameters: Mapping[str, Array], contexts: Contexts
    ) -> tuple[Array, dict[str, Array]]:
        """The loss `(R,)` in nats and its gradient for every parameter, `(R, *shape)`."""

    @abstractmethod
    def attention(self, parameters: Mapping[str, Array], contexts: Contexts) -> Array:
        """Attention from site to site, `(R, layer, B, head, query, key)`; rows sum to 1.

        Sites are the contexts' keys, places or tokens in order; every site is a query, whatever the
        contexts' queries are.
        """

    def conserved(self) -> tuple[Law, ...]:
        """What gradient flow of the loss conserves beyond what follows from `stream`; none by default."""
        return ()

    def logits(self, parameters: Mapping[str, Array], contexts: Contexts) -> Array:
        """Logits of the queries' next tokens, `(R, B, Q, V)`, of contexts of positions.

        For probes of predictions only; an architecture need not have it.

        Raises:
            PluginError: it has not.
        """
        raise PluginError(f"the architecture '{self.name}' has no 'logits', which are needed here")

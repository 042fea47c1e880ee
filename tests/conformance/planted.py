"""Architectures with one fault each, planted into a small one that has none."""

from dataclasses import replace

import numpy as np

from attndyn.layers.parameters import Parameter
from attndyn.spec.base import ModelOptions
from attndyn_plugins.architectures.pure_attention import PureAttention


class Options(ModelOptions):
    architecture: str = "planted"


class Sound(PureAttention):
    """Pure attention with W_V and W_O, read from counts and in the population limit; no options."""

    Options = Options

    def __init__(self, options, d_vocab, n_ctx, backend):
        full = PureAttention.Options(d_model=options.d_model, value_projection=True, output_projection=True)
        super().__init__(full, d_vocab, n_ctx, backend)
        self.noise = np.random.default_rng()
        self.calls = 0

    def loss_and_gradients(self, parameters, contexts):
        loss, gradients = super().loss_and_gradients(parameters, contexts)
        return self.spoil(loss, gradients, parameters, contexts)

    def spoil(self, loss, gradients, parameters, contexts):
        return loss, gradients


class WrongSign(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        return loss, gradients | {"W_K": -gradients["W_K"]}


class SwappedAxes(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        return loss, gradients | {"W_Q": gradients["W_Q"].swapaxes(3, 4)}


class MissingTerm(Sound):
    """The embedding is also read by queries; its gradient forgets that."""

    def loss_and_gradients(self, parameters, contexts):
        loss, gradients = super().loss_and_gradients(parameters, contexts)
        blind = {**parameters, "W_Q": parameters["W_Q"] * 0}
        _, without = super().loss_and_gradients(blind, contexts)
        return loss, gradients | {"W_0": without["W_0"]}


class MissingGradient(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        return loss, gradients | {"W_V": gradients["W_V"] * 0}


class MissingFactor(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        return loss, gradients | {"W_O": gradients["W_O"] * 6**0.5}


class HostLeak(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        return loss * np.ones(loss.shape, loss.dtype), gradients


class HostResult(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        return loss, gradients | {"W_1": self.backend.to_host(gradients["W_1"])}


class LostReplica(Sound):
    """Every replica gets what the first has."""

    def spoil(self, loss, gradients, parameters, contexts):
        first = gradients["W_1"][:1]
        return loss, gradients | {"W_1": self.backend.xp.broadcast_to(first, gradients["W_1"].shape)}


class MixedReplicas(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        mean = self.backend.xp.sum(gradients["W_V"], axis=0, keepdims=True) / len(loss)
        return loss, gradients | {"W_V": gradients["W_V"] * 0 + mean}


class SummedLoss(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        return self.backend.xp.sum(loss, keepdims=True), gradients


class Upcast(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        return loss, gradients | {"W_1": gradients["W_1"].astype("float64")}


class WrongClaim(Sound):
    """Counts weigh by their square roots."""

    def loss_and_gradients(self, parameters, contexts):
        if contexts.representation == "counts":
            contexts = replace(contexts, log_weights=contexts.log_weights * 0.5)
        return super().loss_and_gradients(parameters, contexts)


class WrongLimit(Sound):
    def loss_and_gradients(self, parameters, contexts):
        if contexts.representation == "population":
            contexts = replace(contexts, log_weights=contexts.log_weights * 0.5)
        return super().loss_and_gradients(parameters, contexts)


class Noisy(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        return loss * float(1 + 1e-14 * self.noise.normal()), gradients


class Remembering(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        self.calls += 1
        return loss * (1 + 1e-14 * self.calls), gradients


class Modifying(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        view = parameters["W_0"]
        view += 1.0
        return loss, gradients


class SwappedAttention(Sound):
    def attention(self, parameters, contexts):
        return super().attention(parameters, contexts).swapaxes(-1, -2)


class SwappedDeclaration(Sound):
    @property
    def parameters(self):
        first, *others = super().parameters
        return (Parameter("W_0", ("model", "token"), first.shape, "W_0", "embedding"), *others)


class NotFinite(Sound):
    """In a vocabulary of two tokens only."""

    def spoil(self, loss, gradients, parameters, contexts):
        return loss + (float("nan") if self.d_vocab == 2 else 0.0), gradients


class Raising(Sound):
    def spoil(self, loss, gradients, parameters, contexts):
        raise ZeroDivisionError("no contexts")


class WrongScores(Sound):
    """A sign that is wrong deep inside shows as a term that is wrong."""

    def loss_and_gradients(self, parameters, contexts):
        loss, gradients = super().loss_and_gradients(parameters, contexts)
        blind = {**parameters, "W_Q": parameters["W_Q"] * 0}
        _, without = super().loss_and_gradients(blind, contexts)
        return loss, gradients | {"W_0": 2 * without["W_0"] - gradients["W_0"]}

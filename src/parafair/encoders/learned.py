"""A learned encoder: a linear map of the inputs plus a hidden layer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from torch import Tensor
from torch.nn.functional import silu

from parafair.arguments import real_number, whole_number
from parafair.data.tensor_data import TensorData
from parafair.encoders.base import CompleteEncoder, Encoder
from parafair.encoders.unfolding import check_rank_of
from parafair.errors import unknown_choice

# More are not worth their time.
MOST_UNITS, MOST_STEPS = 10_000, 1_000_000
# In smaller batches, random differences between groups are larger than dependence.
SMALLEST_BATCH = 50


@dataclass(frozen=True)
class Learned:
    """Settings of an encoder that is learned with the model.

    The encoder and the other factors minimize the objective of the model, squared residual plus
    penalty, for rows with noise. People are split into batches, each with its share of every group,
    and each step of the optimizer, Adam, uses one batch.

    Attributes:
        hidden: Number of hidden units; 0 for a linear encoder.
        steps: Number of steps.
        batch_size: People in a batch; larger ones if a group is rare. The penalty compares the
            people of a batch with each other, so it sees less in small batches.
        learning_rate: Size of the first steps, relative to the standard deviation of the rows. It
            falls to nearly 0 at the end.
    """

    hidden: int = 128
    steps: int = 600
    batch_size: int = 2000
    learning_rate: float = 0.003

    def __post_init__(self) -> None:
        whole_number("hidden", self.hidden, least=0, most=MOST_UNITS)
        whole_number("steps", self.steps, most=MOST_STEPS)
        whole_number("batch_size", self.batch_size, least=SMALLEST_BATCH)
        real_number("learning_rate", self.learning_rate, above=0, most=1)


# To add an encoder by name, add its settings here.
LEARNED: dict[str, Learned] = {"linear": Learned(hidden=0), "network": Learned()}


def resolve_encoder(encoder: object) -> Learned | None:
    """Return the settings of an encoder, given by name or as they are; None for None."""
    if encoder is None or isinstance(encoder, Learned):
        return encoder
    if isinstance(encoder, str) and encoder in LEARNED:
        return LEARNED[encoder]
    raise unknown_choice("encoder", encoder, LEARNED)


@dataclass(frozen=True, eq=False)
class LearnedEncoder:
    """``z @ skip + offset + silu(z @ weights + bias) @ output`` of the inputs ``z`` of a person.

    Attributes:
        inputs: The encoder that gives the inputs, shape (people, width).
        skip: Shape (width, rank).
        offset: Shape (rank,).
        weights: Shape (width, hidden); `hidden` is 0 for a linear encoder.
        bias: Shape (hidden,).
        output: Shape (hidden, rank).
    """

    inputs: Encoder
    skip: Tensor
    offset: Tensor
    weights: Tensor
    bias: Tensor
    output: Tensor

    def __repr__(self) -> str:
        width, rank = self.skip.shape
        hidden = f" -> {len(self.bias)} hidden" if len(self.bias) else ""
        return f"LearnedEncoder({width} inputs{hidden} -> {rank})"

    @property
    def mode(self) -> int:
        """The mode of the people."""
        return self.inputs.mode

    @property
    def needs_all_entries(self) -> bool:
        """Whether it raises if an entry is missing, as its inputs do."""
        return isinstance(self.inputs, CompleteEncoder) and self.inputs.needs_all_entries

    def encode(self, data: TensorData) -> Tensor:
        """Return one row per person, shape (people, rank)."""
        inputs = self.inputs.encode(data)
        own = self.with_parameters(each.to(inputs.device) for each in self.parameters)
        return own.of_inputs(inputs.to(self.skip.dtype)).to(data.values)

    def of_inputs(self, inputs: Tensor) -> Tensor:
        """Return the rows of people with these inputs."""
        hidden = silu(inputs @ self.weights + self.bias)
        return inputs @ self.skip + self.offset + hidden @ self.output

    def then(self, matrix: Tensor, constant: Tensor | float = 0.0) -> LearnedEncoder:
        """Return the encoder whose rows are those of this one times a matrix, plus a constant."""
        return replace(
            self,
            skip=self.skip @ matrix,
            offset=self.offset @ matrix + constant,
            output=self.output @ matrix,
        )

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """Everything that is learned."""
        return self.skip, self.offset, self.weights, self.bias, self.output

    def with_parameters(self, parameters: Iterable[Tensor]) -> LearnedEncoder:
        """Return the encoder with other parameters, in the order of `parameters`."""
        return LearnedEncoder(self.inputs, *parameters)

    def check(self, shape: tuple[int, ...], rank: int) -> None:
        """Raise unless it belongs to a model of this shape and rank."""
        check_rank_of(self.skip, rank)
        width, hidden = len(self.skip), len(self.bias)
        shapes = [tuple(each.shape) for each in self.parameters]
        if shapes != [(width, rank), (rank,), (width, hidden), (hidden,), (hidden, rank)]:
            raise ValueError(f"its weights have shapes that do not belong together: {shapes}")
        self.inputs.check(shape, width)

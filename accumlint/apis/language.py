"""The closed language in which library calls are described: operands, conditions, effects, rows.

A row is frozen data without code, so that it can be printed (`accumlint apis`), checked (`apis/check.py`), mutated and
documented. The interpreter has one handler for each effect and names no library.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

# ------------------------------------------------------------------------------------------------ operands


@dataclass(frozen=True, slots=True)
class Arg:
    """The argument bound to a parameter of the row's `parameters`, or that parameter's default."""

    name: str


@dataclass(frozen=True, slots=True)
class Receiver:
    """The object whose method is called."""


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of the receiver, or by a dotted name an attribute of one (`args.gradient_accumulation_steps`)."""

    name: str


@dataclass(frozen=True, slots=True)
class Const:
    value: int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that made or prepared the receiver: the Accelerator of a prepared optimizer."""


@dataclass(frozen=True, slots=True)
class OwnerAttr:
    """An attribute of the receiver's owner (`accelerator.sync_gradients` seen from its prepared optimizer).

    It may be dotted, as an `Attr` may.
    """

    name: str


@dataclass(frozen=True, slots=True)
class ArgAttr:
    """An attribute of an argument (`plugin.num_steps`), or the item of that name if the argument is a dictionary."""

    name: str
    attribute: str


@dataclass(frozen=True, slots=True)
class Ranks:
    """The number of ranks (world size), as an attribute that frameworks keep (`accelerator.num_processes`)."""


@dataclass(frozen=True, slots=True)
class Part:
    """An object of a class of the tables that the receiver keeps and owns (a Trainer's Accelerator)."""

    canonical: str


@dataclass(frozen=True, slots=True)
class Window:
    """The window that a framework is in while it calls the user's method, known only there.

    `what` is "size", the number of its microbatches, fewer than `every` at the end of the loader, "ends", whether this
    microbatch is its last, or "last", whether it is the last of the loader.
    """

    every: Operand
    what: str


Operand: TypeAlias = Arg | Receiver | Attr | Const | Owner | OwnerAttr | ArgAttr | Ranks | Part | Window


@dataclass(frozen=True, slots=True)
class Is:
    """A condition: the operand equals the constant. It is three-valued; what an unknown means is said by `unknown`.

    `unknown` is the answer where the operand's value cannot be seen: the usual case of the library, which is then
    listed among the assumptions of a proof.
    """

    operand: Operand
    value: int | float | str | bool | None
    negated: bool = False
    unknown: bool = False


Condition: TypeAlias = Is

# ------------------------------------------------------------------------------------------------- effects


class Role(Enum):
    """What an object is for. Roles come from constructors first, from use second, from names last."""

    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    SCALER = "scaler"
    MODEL = "model"
    WRAPPED_MODEL = "wrapped model"  # DDP / FSDP: gradients are averaged over the ranks
    PARAMETERS = "parameters"
    LOADER = "loader"
    DATASET = "dataset"
    ITERATOR = "iterator"
    LOSS_FUNCTION = "loss function"
    ACCELERATOR = "accelerator"
    FABRIC = "fabric"
    ENGINE = "engine"  # DeepSpeed: backward, step and clear behind one object
    PREPARED_OPTIMIZER = "prepared optimizer"
    PREPARED_SCHEDULER = "prepared scheduler"
    TRAINER = "trainer"  # Lightning module or HF Trainer
    CONTEXT = "context manager"
    COLLATOR = "collate function"
    STEPPER = "stepper"  # one call hides backward, clip and step (MAE / timm NativeScaler)


class Count(Enum):
    """What the mean of a loss divides by."""

    VALID_TARGETS = "targets that are not ignored"
    WEIGHTED_TARGETS = "sum of the class weights of the targets that are not ignored"
    ELEMENTS = "elements of the input"
    ROWS = "rows of the batch"
    WEIGHT_SUM = "sum of the element weights"
    DECLARED = "declared in the configuration"


class EmptyGradient(Enum):
    """What backward leaves when the count is zero."""

    ZERO = "zero"
    NAN = "nan"
    RAISES = "raises"


@dataclass(frozen=True, slots=True)
class Loss:
    """The call yields a loss site.

    `reduction` is an operand that holds "mean", "sum", "none", "batchmean", ... ; `targets` names the tensor that is
    counted. `ignore` is the operand with the ignored index, if the loss has one; `weights` the class weights.
    `separable` is False for batch-coupled losses, which no weighting can make right.
    """

    reduction: Operand
    targets: Operand
    count: Count
    empty: EmptyGradient = EmptyGradient.ZERO
    ignore: Operand | None = None
    weights: Operand | None = None
    inputs: Operand | None = None
    separable: bool = True
    sum_form: str = "reduction='sum'"  # or an expression template, as for CTC
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Backward:
    """Adds the loss's form, divided by `divided_by`, to every store that it reaches."""

    loss: Operand
    divided_by: Operand | None = None
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class ScaleLoss:
    """Yields the loss times the scaler's factor (`scaler.scale(loss)`, apex `scale_loss`)."""

    loss: Operand
    scaler: Operand
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class ScaleGradients:
    """Multiplies (or with `divide`, divides) the gradient of the parameters by a number."""

    gradients: Operand
    by: Operand
    divide: bool = False
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Unscale:
    """Takes the scaler's factor out of the optimizer's gradient."""

    optimizer: Operand
    unless_done: bool = False
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Clip:
    gradients: Operand
    kind: str  # "norm" or "value"
    limit: Operand | None = None
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    optimizer: Operand
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Clear:
    """Clears gradients of an optimizer, of a model's parameters, or of a list of parameters."""

    gradients: Operand
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Advance:
    """`clock` is "scheduler" or "scaler"."""

    clock: str
    of: Operand
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class SetSync:
    """Gradient synchronisation of a wrapped model is switched. `on` may be an operand (`enabled=` flags)."""

    model: Operand
    on: Operand
    negate: bool = False
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Microstep:
    """The framework counts one more microbatch and decides whether gradients synchronise (`accumulate`, engine.step).

    `every` is the operand with the number of steps; the owner's attribute `flag` then holds the answer; with
    `last_of_loader` the end of a prepared loader counts as a boundary too.
    """

    every: Operand
    flag: str = "sync_gradients"
    last_of_loader: Operand | None = None
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Make:
    """The call makes an object of a role.

    `of` are operands it is tied to (an optimizer's parameters, a scheduler's optimizer, a loader's dataset);
    `attributes` copies operands into attributes of the new object; a `Const` is a fact about it ("finite" for a
    loader). With `kept` the receiver keeps it: each call returns the same object.
    """

    role: Role
    of: tuple[Operand, ...] = ()
    attributes: tuple[tuple[str, Operand], ...] = ()
    canonical: str = ""  # the class whose methods it has, default: the row's own call
    kept: bool = False
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Wrap:
    """The call returns its arguments under new roles (`accelerator.prepare`, `fabric.setup`, `DDP(model)`).

    `roles` maps an old role to the canonical class of the wrapped object; objects of other roles pass through
    unchanged. The receiver (if any) becomes the owner. Several positional arguments come back as a tuple.
    `classes`, if not empty, is parallel to `operands` and names the class of each by its position, whatever its role
    was; "" there decides by role. `attributes` are those of each wrapped object. With `in_place` the argument itself
    changes its class (`fully_shard(model)`).
    """

    operands: tuple[Operand, ...]  # Arg("*args") stands for all positional arguments
    roles: tuple[tuple[Role, str], ...]
    classes: tuple[str, ...] = ()
    attributes: tuple[tuple[str, Operand], ...] = ()
    in_place: bool = False
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Yields:
    """The call returns an operand unchanged (an alias), or a constant."""

    operand: Operand
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Iterate:
    """The call returns an iterable over its operands.

    `kind` is "enumerate", "zip", "islice", "iter", "chain", "pass" (tqdm, prefetchers), "cycle", "reversed", "batched",
    "repeat", "range", "count"; "next" returns the next element instead; "pieces" is the tuple of parts that a tensor is
    cut into, and "split" that of parts of a given size. `start` is enumerate's, islice's or count's start; `stop`
    is islice's stop, the length of a batch of "batched", count's step, the number of pieces, or the size of a part.
    """

    kind: str
    operands: tuple[Operand, ...]
    start: Operand | None = None
    stop: Operand | None = None
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """The call yields the number of elements of what its operand derives from (`numel`, `size(0)`, `mask.sum()`)."""

    of: Operand
    kind: Count = Count.ELEMENTS
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduce:
    """The call reduces a tensor to a scalar over its elements: `kind` is "mean" or "sum"."""

    operand: Operand
    kind: str
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class AllReduce:
    """A count is summed over the ranks; with `yields` the sum is returned, else the operand is changed in place."""

    operand: Operand
    yields: bool = False
    mean: bool = False
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class WorldSize:
    """The call yields the number of ranks; with `and_rank` a pair of it and the rank of the process."""

    and_rank: bool = False
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Detach:
    """The call yields its operand without gradient (`item`, `detach`, `float`)."""

    operand: Operand
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Same:
    """The call changes shape, device, dtype or order of its operand, not what it stands for (`to`, `view`, `float`)."""

    operand: Operand
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Draw:
    """The call yields fresh random data (`torch.randint`), as much of it as `like` holds (`randn_like`)."""

    like: Operand | None = None
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """The call yields an independent copy: a module's has parameters of its own, which the original's loss misses."""

    operand: Operand
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The spelled-out form of an operator: `torch.div(loss, n)`, `labels.ne(-100)`, `total.add_(n)`.

    `operator` is the Python spelling (`/`, `!=`, ...). With `in_place` the left operand itself is changed, too.
    """

    operator: str
    left: Operand
    right: Operand
    in_place: bool = False
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Select:
    """Takes the elements of `of` where the mask `by` is true: `x[mask]` as a call."""

    of: Operand
    by: Operand
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Clamp:
    """The call yields its operand kept between two bounds (`count.clamp(min=1)`)."""

    operand: Operand
    low: Operand | None = None
    high: Operand | None = None
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class RankDivisor:
    """Gradients of the wrapped model are summed over the ranks and divided by `by`, no longer by their number."""

    model: Operand
    by: Operand
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class NoGrad:
    """Entering turns gradients off (`torch.no_grad`, `inference_mode`)."""

    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class SetMode:
    """The layers of a model are switched between train and eval mode (what BatchNorm and dropout look at)."""

    model: Operand
    training: Operand
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Drive:
    """The user's function is called again and again, with an engine that counts from 1 and the next microbatch."""

    function: Operand
    counter: str  # where the engine says which microbatch it is, as a dotted attribute
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Forget:
    """The explicit unknown call: its operands may have been changed in any way; nothing is known of the result."""

    operands: tuple[Operand, ...] = ()
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Hook:
    """The framework calls a method of the user's with one argument, if the receiver's class has it."""

    method: str
    argument: Operand
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Exempt:
    """The call shows that the region does something else than accumulate, so that it is not judged."""

    reason: str
    when: tuple[Condition, ...] = ()


Effect: TypeAlias = (
    Loss
    | Backward
    | ScaleLoss
    | ScaleGradients
    | Unscale
    | Clip
    | Step
    | Clear
    | Advance
    | SetSync
    | Microstep
    | Make
    | Wrap
    | Yields
    | Iterate
    | Counts
    | Reduce
    | AllReduce
    | WorldSize
    | Detach
    | Same
    | Draw
    | Copy
    | Arithmetic
    | Clamp
    | Select
    | RankDivisor
    | NoGrad
    | SetMode
    | Drive
    | Hook
    | Exempt
    | Forget
)


@dataclass(frozen=True, slots=True)
class Row:
    """What one library call does.

    `call` is a canonical dotted name: a function, a class (its constructor) or `package.Class.method`. `aliases` are
    other names of the same thing. `Class.attribute.__set__` is the assignment of an attribute, its parameter `value`;
    `Class.method.__return__` is what a framework does with the value that the user's method returns (Lightning's
    `training_step`), its parameter `value`; `Class.method.__after__` what it does when such a method, that runs its own
    backward, has returned; its parameters are the arguments that the framework passes. A row whose `does` is empty is
    known to leave losses, gradients and clocks alone. `undo` holds on leaving the `with` block, if the call is used as
    a context manager. `assumes` are printed with every proof that used the row. `versions` are those of the library
    that the row describes, as `>=4.46` or `<4.46`, "" for all: of several rows for one call the project's requirements
    choose.
    """

    call: str
    parameters: str
    source: str
    does: tuple[Effect, ...]
    undo: tuple[Effect, ...] = ()
    assumes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    versions: str = ""
    turns_gradients_off: bool = field(init=False, compare=False, repr=False)  # while its `with` block runs

    def __post_init__(self) -> None:
        object.__setattr__(self, "turns_gradients_off", any(isinstance(effect, NoGrad) for effect in self.does))


@dataclass(frozen=True, slots=True)
class ClassRow:
    """What is known of a class apart from its methods: its bases and its attributes.

    `bases` are canonical names whose method rows it inherits (`torch.optim.AdamW` -> `torch.optim.Optimizer`).
    `versions` are as in a `Row`.
    """

    name: str
    bases: tuple[str, ...] = ()
    role: Role | None = None
    attributes: tuple[tuple[str, Operand], ...] = ()
    aliases: tuple[str, ...] = ()
    versions: str = ""


@dataclass(frozen=True, slots=True)
class PatternRow:
    """Names that no row lists but whose meaning is plain: `torch.optim.Foo` is taken for an optimizer.

    `pattern` is a glob over the canonical name (`*` does not cross a dot, `[A-Z]` is one capital), `like` the call of
    the row, and the class, that stands in for it.
    """

    pattern: str
    like: str


@dataclass(frozen=True, slots=True)
class Rename:
    """A dotted prefix under which the same things can be imported: `pytorch_lightning` is `lightning.pytorch`."""

    old: str
    new: str

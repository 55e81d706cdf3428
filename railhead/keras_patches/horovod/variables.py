"""Keras 3's variables in Horovod's functions, which expect a `tf.Variable`; groups of gradients."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

from ..names import not_converted

# The functions of horovod.tensorflow that take a tensor, or several.
COLLECTIVES: tuple[str, ...] = ("allreduce", "allgather", "alltoall", "broadcast", "broadcast_")
COLLECTIVES += ("reducescatter", "grouped_allreduce", "grouped_allgather", "grouped_reducescatter")
# The state of a layer's random numbers: models of Keras 2 did not have it.
SEED = "seed_generator_state"
REDUCED = "_horovod_reduced"


def patch_broadcast(module: types.ModuleType) -> None:
    """horovod.tensorflow.functions: broadcast Keras variables.

    The states of random numbers are the root's plus the rank, so that each rank drops out different
    units, also where all ranks have set the same seed or loaded the same file.
    """
    hvd: Any = module
    broadcast: Callable[..., Any] = hvd.broadcast_variables

    @not_converted
    @functools.wraps(broadcast)
    def broadcast_variables(
        variables: Any,
        root_rank: int,
        process_set: Any = hvd.global_process_set,
        inplace: bool = False,
    ) -> Any:
        variables = list(variables)
        seeds = [item for item in variables if getattr(item, "name", "") == SEED]
        for state in tensorflow_variables(seeds):
            # Horovod does not broadcast uint32.
            root = hvd.broadcast(hvd.tf.cast(state, "int64"), root_rank, process_set=process_set)
            state.assign(hvd.tf.cast(root + [hvd.rank() - root_rank, 0], state.dtype))
        shared = [item for item in variables if getattr(item, "name", "") != SEED]
        return broadcast(tensorflow_variables(shared), root_rank, process_set, inplace)

    hvd.broadcast_variables = broadcast_variables


def patch_horovod(module: types.ModuleType) -> None:
    """horovod.tensorflow: accept Keras variables in collective operations, in the gradient tape
    and in groups."""
    for name in COLLECTIVES:
        setattr(module, name, of_tensorflow_variables(getattr(module, name)))
    reductions = Reductions(module, vars(module)["_make_allreduce_grads_fn"])
    module._make_allreduce_grads_fn = reductions.reduction  # type: ignore[attr-defined]


def of_tensorflow_variables(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gets the `tf.Variable` of each Keras variable among its arguments."""

    @not_converted
    @functools.wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        options = {name: tensorflow_variables(value) for name, value in options.items()}
        return function(*map(tensorflow_variables, args), **options)

    return wrapper


def tensorflow_variables(value: Any) -> Any:
    """The `tf.Variable` of a Keras variable, also in a list; anything else as it is."""
    import keras

    if isinstance(value, list):
        return [tensorflow_variables(item) for item in value]
    if type(value) is tuple:
        return tuple(map(tensorflow_variables, value))
    return value._value if isinstance(value, keras.Variable) else value


class Reductions:
    """Makes the functions that reduce gradients over the ranks.

    `upstream` is Horovod's own, which is used without groups. With groups it takes the shapes of
    sparse gradients from others, and identifies variables by their names, which may be equal.
    """

    def __init__(self, hvd: types.ModuleType, upstream: Callable[..., Any]) -> None:
        self.hvd, self.upstream = hvd, upstream
        self.functions: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def reduction(
        self,
        name: str,
        device_dense: str,
        device_sparse: str,
        compression: Any,
        sparse_as_dense: bool,
        op: Any,
        gradient_predivide_factor: float,
        groups: int | list[Any] | None,
        process_set: Any,
    ) -> Callable[..., list[Any]]:
        """A function of (gradients, variables, use_generic_names) to the reduced gradients.

        Raises:
            ValueError: groups with Adasum, which Horovod cannot reduce together.
        """
        devices, rest = (device_dense, device_sparse), (op, gradient_predivide_factor)
        if groups is None:
            common = (name, *devices, compression, sparse_as_dense, *rest)
            reduce = self.upstream(*common, None, process_set)
        else:
            if op == self.hvd.Adasum:
                raise ValueError(
                    "groups: not with op=hvd.Adasum, which reduces each gradient alone"
                )
            split = functools.partial(members, groups)
            reduce = self._grouped(name, *devices, compression, *rest, process_set)

        @not_converted
        def reduced(gradients: Any, variables: Any, use_generic_names: bool = False) -> list[Any]:
            if groups is None:
                shared = tensorflow_variables(list(variables))
                return marked(reduce(gradients, shared, use_generic_names))
            gradients = densified(gradients) if sparse_as_dense else list(gradients)
            return marked(reduce(gradients, split(gradients, variables), use_generic_names))

        return reduced

    def _grouped(
        self,
        name: str,
        device_dense: str,
        device_sparse: str,
        compression: Any,
        op: Any,
        gradient_predivide_factor: float,
        process_set: Any,
    ) -> Callable[..., list[Any]]:
        """A function of (gradients, groups of their indices, use_generic_names)."""
        import tensorflow as tf

        hvd, eager = self.hvd, tf.executing_eagerly()
        factor = gradient_predivide_factor if op == hvd.Average else 1.0
        reduce_group = functools.partial(
            hvd._grouped_allreduce_cond,
            device_dense=device_dense,
            device_sparse=device_sparse,
            compression=compression,
            op=op,
            prescale_factor=1.0 / factor,
            postscale_factor=factor,
            process_set=process_set,
        )

        def reduce(gradients: list[Any], groups: Any, use_generic_names: bool) -> list[Any]:
            results = list(gradients)
            with tf.name_scope(f"{name}_Allreduce"):
                for number, group in enumerate(groups):
                    sums = reduce_group(
                        [gradients[index] for index in group],
                        name=f"grad_{number}" if use_generic_names else None,
                        ignore_name_scope=use_generic_names,
                    )
                    for index, result in zip(group, sums, strict=True):
                        results[index] = result
            return results

        key = (name, eager, *sorted(reduce_group.keywords.items(), key=lambda item: item[0]))
        if key not in self.functions:
            self.functions[key] = tf.function(reduce, autograph=False) if eager else reduce
        return self.functions[key]


def members(groups: int | list[Any], gradients: Sequence[Any], variables: Any) -> list[list[int]]:
    """The indices of the gradients that are reduced together; a sparse one is reduced alone."""
    import tensorflow as tf

    present = [index for index, gradient in enumerate(gradients) if gradient is not None]
    dense = [i for i in present if not isinstance(gradients[i], tf.IndexedSlices)]
    lists: list[list[int]] = []
    if isinstance(groups, list):
        alone = list(dense)
        for group in groups:
            refs = {variable.ref() for variable in group}
            lists.append([index for index in alone if variables[index].ref() in refs])
            alone = [index for index in alone if index not in lists[-1]]
    else:
        alone, (size, larger) = [], divmod(len(dense), groups)
        starts = [number * size + min(number, larger) for number in range(groups + 1)]
        lists = [dense[a:b] for a, b in zip(starts, starts[1:], strict=False)]
    lists += [[index] for index in present if index in alone or index not in dense]
    return [refs for indices in lists for refs in _of_one_type(indices, gradients)]


def _of_one_type(indices: list[int], gradients: Sequence[Any]) -> list[list[int]]:
    """A group, divided by the types of its gradients: Horovod refuses a group of several types,
    such as those of layers with different precisions."""
    kinds = dict.fromkeys(gradients[index].dtype for index in indices)
    return [[index for index in indices if gradients[index].dtype == kind] for kind in kinds]


def densified(gradients: Any) -> list[Any]:
    """Sparse gradients as dense ones; None stays None."""
    import tensorflow as tf

    return [tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g for g in gradients]


def marked(gradients: list[Any]) -> list[Any]:
    """The gradients, marked as reduced: an optimizer does not reduce those of a tape again."""
    for gradient in gradients:
        if gradient is not None:
            setattr(gradient, REDUCED, True)
    return gradients


def are_reduced(gradients: Any) -> bool:
    """Whether all of these gradients are reduced already."""
    return all(getattr(gradient, REDUCED, False) for gradient in gradients if gradient is not None)

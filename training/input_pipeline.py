"""Turns positions of an epoch into batches of tensors, with tf.data.

A batch is (inputs, labels, weights, total): weights are 1, and 0 for padding; total is the number
of samples of the whole step, of all replicas together. With `sample_weights` there is a fifth
element, the factor of each sample's loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from .checkpoints.checkpoint import Position
from .config import TrainConfig
from .data import augment, unreadable
from .data.assignment import (
    ORDERS,
    Epoch,
    Share,
    lane_begin,
    lane_length,
    lanes_for,
    shares,
    shuffled,
)
from .data.shards.lanes import DRAWS, Lane, Spans, tracks_of
from .data.shards.shard_files import Piece, Shards
from .results import TrainingError
from .strategies.device_copies import untuned
from .tasks import task_of

VECTOR = tf.TensorSpec([None], tf.int64)
SCALAR = tf.TensorSpec([], tf.int64)
FLOATS = tf.TensorSpec([None], tf.float32)
TEXT = tf.TensorSpec([], tf.string)
PIECE = (TEXT, SCALAR, SCALAR, SCALAR)
BUFFER = 256 << 10  # bytes of a shard that are read at once, as TensorFlow does by default


@dataclass(frozen=True)
class Plan:
    """How the samples of one split are cut into steps, for every epoch of a training."""

    samples: int
    global_batch: int
    replicas: int
    lanes: int
    steps: int  # of each epoch
    seed: int
    training: bool  # shuffled and augmented, otherwise in order
    first_epoch: int = 0
    start: int = 0  # position in the first epoch
    order: int = ORDERS[-1]  # version of the shuffle of shards

    def epoch(self, number: int) -> Epoch:
        """The cut of one epoch; only the first one begins inside."""
        start = self.start if number == self.first_epoch else 0
        return Epoch(self.samples, self.global_batch, self.replicas, self.lanes, start)

    def steps_of(self, number: int) -> int:
        """Steps of one epoch: fewer in one that continues after an interruption."""
        epoch = self.epoch(number)
        return min(epoch.steps, self.steps - epoch.start // self.global_batch)

    def shares(self, number: int, replica: int) -> Iterator[Share]:
        """The batches of one replica in one epoch."""
        return shares(self.epoch(number), replica, self.steps_of(number))

    def length(self, replica: int) -> int:
        """Samples in a replica's batch of shards; the last one of an epoch may be shorter."""
        return self._whole.length(0, replica)

    @property
    def idle(self) -> bool:
        """Whether a replica is without samples in a step."""
        return self._whole.idle

    @property
    def _whole(self) -> Epoch:
        return Epoch(self.samples, self.global_batch, self.replicas, self.lanes)


def plan_for(
    samples: Any,
    config: TrainConfig,
    *,
    replicas: int,
    global_batch: int,
    training: bool,
    position: Position | None = None,
) -> Plan:
    """The plan of a split; an epoch ends early if the settings require it.

    Raises:
        TrainingError: shards, and a global batch that cannot take equal parts of their lanes, or a
            checkpoint whose order this version does not know.
    """
    position = position or Position()
    lanes = replicas
    if isinstance(samples, Shards):
        if position.order not in ORDERS:
            raise TrainingError(
                f"the checkpoint reads shards in order {position.order}, of a newer Railhead; this "
                f"one knows {ORDERS[0]} to {ORDERS[-1]}: continue with that version"
            )
        # Inside an epoch the lanes must stay as they were: records are read lane by lane.
        lanes = position.lanes if position.samples else lanes_for(replicas)
        if global_batch % lanes:  # as after a host was lost: the global batch stays
            lanes = position.lanes or lanes
        if global_batch % lanes:
            raise TrainingError(
                f"shards are read in {lanes} lanes: the global batch must be a multiple of "
                f"{lanes}, not {global_batch}"
            )
    all_steps = Epoch(len(samples), global_batch, replicas, lanes).steps
    steps = min(all_steps, config.steps_per_epoch or all_steps) if training else all_steps
    return Plan(
        samples=len(samples),
        global_batch=global_batch,
        replicas=replicas,
        lanes=lanes,
        steps=steps,
        seed=config.seed,
        training=training,
        first_epoch=position.epoch,
        start=position.samples,
        order=position.order,
    )


def batches(samples: Any, plan: Plan, config: TrainConfig, replicas: Iterable[int]) -> Any:
    """A tf.data.Dataset of these replicas' batches in turn, one epoch after the other, without end.

    It has no end because a strategy over several workers checks before each step of a finite data
    set whether any worker has reached the end. The loop counts its steps itself.
    """
    if isinstance(samples, Shards):
        parts = [sequential(samples, plan, config, replica) for replica in replicas]
    else:
        read = samples.reader()
        parts = [gathered(samples, plan, config, replica, read) for replica in replicas]
    dataset = parts[0]
    if len(parts) > 1:  # tf.distribute gives a host's elements to its devices in turn
        turns = tf.data.Dataset.range(len(parts)).repeat()
        dataset = tf.data.Dataset.choose_from_datasets(parts, turns, stop_on_empty_dataset=False)
    return dataset.prefetch(2 * len(parts)).with_options(untuned())


def next_batch(feed: Iterator[Any], samples: Any) -> Any:
    """The next batch of a feed of these samples.

    Raises:
        DataError: TensorFlow cannot read it; the message names the file, record or value.
    """
    try:
        return next(feed)
    except (tf.errors.OpError, StopIteration) as error:
        raise unreadable(samples, error) from None


def gathered(samples: Any, plan: Plan, config: TrainConfig, replica: int, read: Any) -> Any:
    """Samples that can be read in any order: a full shuffle."""

    def steps(epoch: int) -> Iterator[tuple[list[int], Sequence[float], int]]:
        order: Sequence[int] = range(plan.samples)
        if plan.training:
            order = shuffled(plan.samples, epoch=epoch, seed=plan.seed)
        for share in plan.shares(epoch, replica):
            yield [order[position] for position in share.positions], share.weights, share.total

    def epoch_batches(epoch: Any) -> Any:
        return generated(steps, (VECTOR, FLOATS, SCALAR), epoch).map(
            lambda *step: finished(plan, config, epoch, step, read(step[0])) + factors(step[0]),
            num_parallel_calls=calls(config),
        )

    factors = reader_of_factors(samples, config)
    # Plain tf.data, built from Python generators: AutoGraph has nothing to convert.
    return epochs_of(plan).flat_map(tf.autograph.experimental.do_not_convert(epoch_batches))


def reader_of_factors(samples: Any, config: TrainConfig) -> Callable[[Any], tuple[Any, ...]]:
    """A function from sample numbers to their factors, (float32 [batch],); () without any."""
    if not config.sample_weights:
        return lambda numbers: ()
    values = getattr(samples, "factors", None)
    with tf.device("cpu"):
        factors = tf.ones([len(samples)]) if values is None else tf.constant(values, tf.float32)
    return lambda numbers: (tf.gather(factors, numbers),)


def sequential(samples: Shards, plan: Plan, config: TrainConfig, replica: int) -> Any:
    """Shards: a replica reads its lanes from front to back."""
    lanes = Lanes(samples, plan, config, replica)
    samples.source.prepare(lanes.shards())

    def epoch_batches(epoch: Any) -> Any:
        steps = generated(lanes.steps, (VECTOR, FLOATS, SCALAR), epoch)
        records = lanes.records(epoch).batch(plan.length(replica))
        return tf.data.Dataset.zip((steps, records)).map(
            lambda step, record: finished(plan, config, epoch, step, samples.parse(record)),
            num_parallel_calls=calls(config),
        )

    # Plain tf.data, built from Python generators: AutoGraph has nothing to convert.
    return epochs_of(plan).flat_map(tf.autograph.experimental.do_not_convert(epoch_batches))


class Lanes:
    """The lanes of one replica, epoch by epoch."""

    def __init__(self, samples: Shards, plan: Plan, config: TrainConfig, replica: int) -> None:
        self.samples, self.plan, self.replica = samples, plan, replica
        self.own = [lane for lane in range(plan.lanes) if lane % plan.replicas == replica]
        self.window = config.shuffle_window if plan.training else 1
        self.tracks = tracks_of(plan.order, self.window)
        self.padding = next((cut for lane in self.own if (cut := self.cut(lane))), samples.spans)

    def cut(self, lane: int) -> Spans:
        """The records of one lane, as they are in the shards."""
        samples, lanes = self.plan.samples, self.plan.lanes
        begin = lane_begin(samples, lanes, lane)
        return self.samples.spans.take(begin, lane_length(samples, lanes, lane))

    def shards(self) -> list[int]:
        """The numbers of all shards of which this replica reads something, ascending."""
        spans = [self.padding.take(0, 1), *map(self.cut, self.own)]
        return sorted({number for each in spans for number in each.shards().tolist()})

    def read(self, lane: int, epoch: int) -> Lane:
        """One lane in one epoch, from where it continues."""
        start = self.plan.epoch(epoch).start
        return Lane(
            self.cut(lane),
            DRAWS[self.plan.order](self.plan.seed, epoch, lane),
            tracks=self.tracks,
            window=self.window,
            start=lane_length(start, self.plan.lanes, lane),
        )

    def steps(self, epoch: int) -> Iterator[tuple[list[int], Sequence[float], int]]:
        """Per step the sample numbers, the weights and the total."""
        numbers = {lane: self.read(lane, epoch).numbers() for lane in self.own}
        for share in self.plan.shares(epoch, self.replica):
            places = zip(share.positions, share.weights, strict=True)
            sample_numbers = [next(numbers[p % self.plan.lanes]) if w else 0 for p, w in places]
            yield sample_numbers, share.weights, share.total

    def turns(self, epoch: int) -> Iterator[list[int]]:
        """Per step the lane that each sample is read from; the last number is the padding's."""
        for share in self.plan.shares(epoch, self.replica):
            places = zip(share.positions, share.weights, strict=True)
            yield [self.own.index(p % self.plan.lanes) if w else len(self.own) for p, w in places]

    def records(self, epoch: Any) -> Any:
        """The serialized records of an epoch, one by one; padding is one of this replica's."""
        parts = [self.lane_records(lane, epoch) for lane in self.own]
        turns = generated(self.turns, VECTOR, epoch).unbatch()
        return tf.data.Dataset.choose_from_datasets(
            [*parts, self.padding_records()], turns, stop_on_empty_dataset=False
        )

    def lane_records(self, lane: int, epoch: Any) -> Any:
        """The records of one lane in the order of training."""

        def pieces(number: int, track: int) -> Iterator[Piece]:
            yield from self.pieces(self.read(lane, number).reads(track))

        def orders(number: int) -> Iterator[Any]:
            yield from self.read(lane, number).orders()

        stretch = max(1, self.window // self.tracks)
        records = tf.data.Dataset.range(self.tracks).interleave(
            lambda track: generated(pieces, PIECE, epoch, track).flat_map(records_of),
            cycle_length=self.tracks,
            block_length=stretch,
        )
        if self.window == 1:
            return records
        size = stretch * self.tracks
        windows = tf.data.Dataset.zip((records.batch(size), generated(orders, VECTOR, epoch)))
        return windows.map(tf.gather).unbatch()

    def pieces(self, spans: Spans) -> Iterator[Piece]:
        """Some of this replica's records, which are read together with all its other tracks."""
        return self.samples.source.pieces(spans, len(self.own) * self.tracks)

    def padding_records(self) -> Any:
        """One record, without end."""
        padding = generated(lambda _: self.pieces(self.padding.take(0, 1)), PIECE, 0)
        return padding.flat_map(records_of).cache().repeat()


def records_of(path: Any, offset: Any, skip: Any, count: Any) -> Any:
    """The given number of records of a file, which TensorFlow's own data set reads only from its
    beginning."""
    file = tf.raw_ops.TFRecordDatasetV2(
        filenames=[path], compression_type="", buffer_size=BUFFER, byte_offsets=[offset]
    )
    records = tf.data.experimental.from_variant(file, TEXT)
    return records.skip(skip).take(count)


def generated(of: Callable[..., Iterator[Any]], signature: Any, *numbers: Any) -> Any:
    """The elements that a Python function yields for an epoch, or another number."""
    return tf.data.Dataset.from_generator(
        lambda *values: of(*map(int, values)), args=numbers, output_signature=signature
    )


def epochs_of(plan: Plan) -> Any:
    """The numbers of the epochs: without end in training, the first one again in evaluation."""
    if plan.training:
        return tf.data.Dataset.range(plan.first_epoch, 1 << 40)
    return tf.data.Dataset.from_tensors(tf.zeros([], tf.int64)).repeat()


def finished(plan: Plan, config: TrainConfig, epoch: Any, step: Any, read: Any) -> Any:
    """The batch as the model gets it: `step` is (numbers, weights, total), `read` what was read."""
    (numbers, weights, total), (inputs, labels) = step, read
    if plan.training and inputs.shape.rank == 4:
        inputs = augmented(inputs, config, epoch, numbers)
    labels = tf.cast(labels, task_of(config.task).label_type)
    return inputs, labels, weights, tf.cast(total, tf.float32)


def augmented(inputs: Any, config: TrainConfig, epoch: Any, numbers: Any) -> Any:
    """Change images [batch, height, width, channels], each by its own draws."""
    draws = partial(augment.draws, config.seed, epoch, numbers)
    if config.shift:
        inputs = augment.shift_images(inputs, config.shift, draws(0), draws(1))
    return augment.flip_images(inputs, draws(2)) if config.flip == "on" else inputs


def calls(config: TrainConfig) -> int:
    """How many batches are prepared at once."""
    return max(1, config.threads)

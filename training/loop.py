"""One custom Keras 3 loop for every strategy: train, evaluate each epoch, leave the results.

`Model.fit` would not do: in Keras 3 it works neither with Horovod's optimizer nor with several
workers of MultiWorkerMirroredStrategy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from training import data, models, strategies
from training.config import TrainConfig
from training.data.augment import shifted
from training.data.pipeline import batches, interleaved
from training.data.shards import steps_in_epoch, training_batches
from training.evaluate import TALLIES, evaluator, metrics_of, tally
from training.job import Job
from training.results import (
    Evaluation,
    Metrics,
    Progress,
    Records,
    TrainingError,
    judge,
    write_evaluation,
)
from training.strategies import Strategy


def train_and_evaluate(job: Job, records: Records) -> Evaluation:
    """Do the whole job in this process, together with the run's other processes.

    Raises:
        TrainingError: the processes do not match the run, the data do not reach for them, or the
            loss is no longer a number.
    """
    limit_threads(job.threads)
    strategy = strategies.join(job.strategy, processes=job.processes)
    if strategy.rank == 0:
        records.emit("message", text=_announcement(job, strategy))
    training = Training(strategy, job.config, records)
    held_out = training.run()
    evaluation = judge(held_out, job.config.min_accuracy)
    strategy.save(training.model, job.results)
    if strategy.rank == 0:
        write_evaluation(evaluation, job.results)
        records.emit("evaluation", **asdict(evaluation))
    strategy.close()
    return evaluation


def limit_threads(threads: int) -> None:
    """Keep this process to its share of the cores, before TensorFlow starts its pools."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # Two at least: one waits in a collective while the other still computes.
    tf.config.threading.set_inter_op_parallelism_threads(max(2, threads))


class Training:
    """A model, its optimizer and its data, on one strategy."""

    def __init__(self, strategy: Strategy, config: TrainConfig, records: Records) -> None:
        self.strategy = strategy
        self.config = config
        self.records = records
        self.data = data.load(config)
        self.steps = steps_per_epoch(len(self.data.train), strategy.size, config)
        share = len(self.data.train) // strategy.size * strategy.size
        self.samples_per_step = share / self.steps
        # Ranks differ in their dropouts; they start from rank 0's weights all the same.
        keras.utils.set_random_seed(config.seed + strategy.rank)
        with strategy.scope():
            shape = self.data.train.images.shape[1:]
            self.model = models.build(config.model, shape=shape, classes=self.data.classes)
            self.optimizer = build_optimizer(config, strategy.size, self.steps)
            self.optimizer.build(self.model.trainable_variables)
        # The weights only: the random state of layers such as Dropout is each rank's own.
        strategy.broadcast(behind(self.model.weights) + behind(self.optimizer.variables))

    def run(self) -> Metrics:
        """Train all epochs; the held-out metrics after the last."""
        feed = self.strategy.iterate(self._dataset)
        step = self._compile(feed)
        evaluate = evaluator(self.strategy, self.model, self.data.held_out, self.config)
        progress = Progress(self.records, epochs=self.config.epochs, steps_per_epoch=self.steps)
        for epoch in range(1, self.config.epochs + 1):
            trained, rate = self._run_epoch(feed, step, progress)
            held_out = evaluate()
            self._report_epoch(epoch, trained, held_out, rate)
        return held_out

    def _run_epoch(
        self, feed: Iterator[Any], step: Any, progress: Progress
    ) -> tuple[Metrics, float | None]:
        progress.start_epoch()
        tallies = tf.zeros([TALLIES])
        for _ in range(self.steps):
            tallies += step(next(feed))
            progress.count(self.samples_per_step, partial(_mean_loss, tallies))
        trained = metrics_of(self.strategy.total(tallies))
        return trained, progress.samples_per_s()

    def _dataset(self, replicas: range) -> Any:
        samples = self.data.train

        def shard(epoch: int, replica: int) -> Sequence[Sequence[int]]:
            shards = training_batches(
                len(samples),
                size=self.strategy.size,
                rank=replica,
                epoch=epoch,
                seed=self.config.seed,
                batch_size=self.config.batch_size,
            )
            return shards[: self.steps]

        def epochs() -> Iterator[Any]:
            for epoch in range(self.config.epochs):
                yield interleaved([shard(epoch, replica) for replica in replicas])

        return batches(samples, epochs)

    def _compile(self, feed: Any) -> Any:
        """One step of all replicas as one graph; it returns this process's tallies."""
        return tf.function(
            lambda batch: self.strategy.run(self._replica_step, batch),
            input_signature=[feed.element_spec],
            autograph=False,
        )

    def _replica_step(self, batch: Any) -> Any:
        images, labels, weights = batch
        with tf.GradientTape() as tape:
            logits = self.model(shifted(images, self.config.shift), training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
        variables = behind(self.model.trainable_variables)
        gradients = self.strategy.gradients(tape, loss, variables)
        pairs = zip(gradients, self.model.trainable_variables, strict=True)
        self.optimizer.apply_gradients(pairs)
        return tally(losses, logits, labels, weights)

    def _report_epoch(
        self, epoch: int, trained: Metrics, held_out: Metrics, rate: float | None
    ) -> None:
        if not math.isfinite(trained.loss):  # the same on every rank: all stop here together
            raise TrainingError(
                f"the loss of epoch {epoch} is not a number: lower learning_rate "
                f"({self.config.learning_rate}, times {self.strategy.size} replicas)"
            )
        if self.strategy.rank != 0:
            return
        self.records.emit(
            "epoch",
            epoch=epoch,
            epochs=self.config.epochs,
            loss=trained.loss,
            accuracy=trained.accuracy,
            val_loss=held_out.loss,
            val_accuracy=held_out.accuracy,
            samples_per_s=rate,
        )


def steps_per_epoch(samples: int, size: int, config: TrainConfig) -> int:
    """Steps that cover the training set once, or as many as the settings allow."""
    try:
        whole = steps_in_epoch(samples, size=size, batch_size=config.batch_size)
    except ValueError as error:
        raise TrainingError(str(error)) from None
    return min(whole, config.steps_per_epoch or whole)


def build_optimizer(config: TrainConfig, size: int, steps: int) -> Any:
    """The optimizer with its rate: from that of one replica up to `size` times it, then down."""
    rate = config.learning_rate
    warmup = min(round(config.warmup_epochs * steps), config.epochs * steps)
    schedule = keras.optimizers.schedules.CosineDecay(
        rate if warmup else rate * size,
        decay_steps=max(1, config.epochs * steps - warmup),
        alpha=0.0 if config.decay == "cosine" else 1.0,
        warmup_target=rate * size if warmup else None,
        warmup_steps=warmup,
    )
    if config.optimizer == "sgd":
        return keras.optimizers.SGD(schedule, momentum=0.9)
    return keras.optimizers.Adam(schedule)


def behind(variables: Sequence[Any]) -> list[Any]:
    """The tf.Variables behind Keras 3's, which neither the tape nor Horovod understands."""
    return [variable.value for variable in variables]


def _mean_loss(tallies: Any) -> float:
    return metrics_of(tallies).loss


def _announcement(job: Job, strategy: Strategy) -> str:
    config = job.config
    return (
        f"training {config.model} on {config.data} with {job.strategy}: {strategy.size} replica(s) "
        f"in {strategy.processes} process(es), {job.threads} CPU thread(s) each"
    )

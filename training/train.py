"""One custom Keras 3 loop for every strategy: train, evaluate each epoch, write the results.

`Model.fit` cannot be used: in Keras 3 it works neither with Horovod's optimizer nor with several
workers of MultiWorkerMirroredStrategy.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from .callbacks import Callbacks, Decision
from .checkpoints.state import State
from .config import TrainConfig
from .data import splits
from .data.arrays import Arrays
from .data.splits import HeldOut
from .evaluation.evaluator import Result, evaluator, metrics_of
from .evaluation.write import write
from .events import Events
from .export import export
from .input_pipeline import batches, next_batch, plan_for
from .job import Job
from .learning.learner import Learner
from .learning.step import SUMS, Step, accumulation_note
from .learning.watch import check_finite
from .process import work_together
from .results import (
    MODEL,
    Evaluation,
    Metrics,
    Progress,
    Records,
    epoch_figures,
    held_out_figures,
    judge,
    overfit_note,
)
from .strategies.protocol import Strategy
from .tasks import task_of
from .variables import moving, tensors_of


def train_and_evaluate(job: Job, records: Records) -> Evaluation | None:
    """Do the whole job in this process, together with the run's other processes.

    The result is None in a process that only serves others, such as a parameter server.

    Raises:
        TrainingError: the processes do not match the run, a checkpoint does not fit, or the loss
            is no longer a number.
        DataError: the data is missing or wrong.
    """

    def work(strategy: Strategy, name: str) -> Evaluation:
        training = Training(strategy, job, records)
        if strategy.rank == 0:
            start = training.position
            records.emit("start", step=start.step, epoch=start.epoch)
            records.emit("message", text=training.announcement(name))
        return training.run()

    return work_together(job, records, work)


class Training:
    """A model, its optimizer and its data, on one strategy."""

    def __init__(self, strategy: Strategy, job: Job, records: Records) -> None:
        self.strategy, self.job, self.records = strategy, job, records
        self.config: TrainConfig = job.config
        self.task = task_of(job.config.task, job.config.label_smoothing)
        self.data = splits.load(
            job.config, job.data, lambda text: records.emit("message", text=text)
        )
        self._start()
        parts = (job.config, strategy, self.data, self.task, self.plan, self.total)
        self.learner = Learner(*parts, self.position.epoch)
        self.model = self.learner.model
        # The weights only: the random state of layers such as Dropout is each rank's own.
        strategy.broadcast(tensors_of(self.model.weights) + tensors_of(self.optimizer.variables))
        self.state.restore(self.checkpoint, self.model, self.optimizer)
        self.callbacks = Callbacks(
            self.config, strategy, self.model, epochs=self.epochs, steps=self.plan.steps
        )
        self.learner.rate.scale.assign(self.position.rate_scale)
        self.state.check_room(self.model, self.optimizer)
        self.events = Events(job.results, strategy.rank, job.config, self._say)

    def _start(self) -> None:
        """Where this training begins, and how its samples are cut into steps."""
        train, config, replicas = self.data.train, self.config, self.strategy.size
        self.state = State(self.job, self.strategy, self.records, samples=len(train))
        self.position, self.checkpoint = self.state.load()
        self.saved = self.position.step if self.state.continues else None
        self.overfit = ""
        of_settings = config.global_batch or config.batch_size * replicas
        self.plan = plan_for(
            train,
            config,
            replicas=replicas,
            global_batch=self.position.global_batch or of_settings,
            training=True,
            position=self.position,
        )
        self.position = replace(
            self.position, global_batch=self.plan.global_batch, lanes=self.plan.lanes, done=False
        )
        self.total = config.steps or config.epochs * self.plan.steps
        self.epochs = -(-self.total // self.plan.steps)

    @property
    def optimizer(self) -> Any:
        """The optimizer of this phase."""
        return self.learner.optimizer

    def announcement(self, name: str) -> str:
        """The line that says what begins."""
        strategy, plan = self.strategy, self.plan
        begin = f", from step {self.position.step}" if self.state.continues else ""
        gpus = len(tf.config.get_visible_devices("GPU"))
        return (
            f"training {self.config.model} on {self.config.data} with {name}: {strategy.size} "
            f"replica(s) in {strategy.processes} process(es), {self.job.threads} CPU thread(s) and "
            f"{gpus} GPU(s) each; {plan.samples} samples, global batch {plan.global_batch}, "
            f"{plan.steps} steps per epoch, learning rate {self.learner.rate.peak:g}{begin}"
        )

    def run(self) -> Evaluation:
        """Train all epochs, evaluate, and write the results."""
        try:
            return self._run()
        except BaseException:
            self.state.finish()  # the checkpoint that is being written
            raise

    def _run(self) -> Evaluation:
        self.prepare_steps()
        if text := accumulation_note(self.model, self.config):
            self._say(text)
        evaluate = self._evaluator(self.data.validation)
        result = None
        self.callbacks.begin(self.checkpoint.beside.callbacks if self.checkpoint else "")
        while self.position.step < self.total and not self._should_stop():
            result = self.run_epoch(evaluate)
        self.callbacks.end()
        self.events.close(self.position.step)
        return self._finish(result, evaluate)

    def prepare_steps(self) -> None:
        """The batches, the step as a graph, and the count of steps."""
        self.feed = self.strategy.iterate(
            lambda replicas: batches(self.data.train, self.plan, self.config, replicas)
        )
        self._compile_step()
        self.progress = Progress(
            self.records,
            epochs=self.epochs,
            steps=self.total,
            step=self.position.step,
            rate=lambda number: self.learner.rate.at(number),
            scalars=self.events.scalars,
        )

    def _compile_step(self) -> None:
        parts = (self.strategy, self.model, self.optimizer, self.task, self.config)
        step = Step(*parts, idle=self.plan.idle, unit=self.learner.unit, report=self._say)
        self.watched = step.watch.texts
        self.step = step.compile(self.feed)

    def _say(self, text: str) -> None:
        if self.strategy.rank == 0:
            self.records.emit("message", text=text)

    def _evaluator(self, samples: Any) -> Callable[[], Result]:
        evaluate = evaluator(
            self.strategy, self.model, samples, self.config, self.task, self.data.classes
        )
        statistics = tensors_of(moving(self.model))

        def averaged() -> Result:
            self.strategy.average(statistics)  # such as batch normalisation's moving averages
            with self.learner.averages.in_model():
                return evaluate()

        return averaged

    def run_epoch(self, evaluate: Callable[[], Result]) -> Result:
        """The rest of one epoch, then its evaluation."""
        epoch = self.position.epoch
        self.progress.start_epoch(epoch + 1)
        self.tallies = np.array(self.position.tallies)
        begin = (self.learner.rate, self.position.step, self.position.rate_scale)
        resumed = self.position.samples > 0
        self._decide(self.callbacks.epoch_begin(epoch, *begin, resumed=resumed))
        steps = min(self.plan.steps_of(epoch), self.total - self.position.step)
        self._train_steps(steps, evaluate)
        trained = metrics_of(self.tallies)
        self._keep_before_first_evaluation()
        speed = {"samples_per_s": self.progress.samples_per_s(), **self.progress.times()}
        result = evaluate()
        self.overfit = overfit_note(trained, result.metrics, self.learner.unit)
        figures = epoch_figures(self.task.metric, trained, result.metrics, result.more)
        self._decide(self.callbacks.epoch_end(epoch, figures, self.position.step))
        figures["learning_rate"] = self.learner.rate.at(self.position.step)
        self._end_epoch(result.metrics)
        if self.strategy.rank == 0:
            values = {**figures, **speed}
            self.records.emit("epoch", epoch=epoch + 1, epochs=self.epochs, **values)
            self.events.scalars(self.position.step, **values)
        return result

    def _train_steps(self, steps: int, evaluate: Callable[[], Result]) -> None:
        waiting: deque[tuple[Any, float]] = deque()
        pending = 0 if self.callbacks.each_batch else self.strategy.pending
        first = self.position.samples // self.plan.global_batch
        for number in range(first, first + steps):
            self.callbacks.batch_begin(number)
            begin = time.monotonic()
            batch = next_batch(self.feed, self.data.train)
            waited = time.monotonic() - begin
            waiting.append((self.strategy.call(self.step, batch), waited))
            self._count_position()
            self.state.report()
            if self.state.due(self.position.step):
                self._drain(waiting, 0)
                self._save()
            self._drain(waiting, pending)
            self.callbacks.batch_end(number, self._means)
            every = self.config.validation_steps
            if every and self.position.step % every == 0 and number < first + steps - 1:
                self._drain(waiting, 0)
                self._validate(evaluate)
        self._drain(waiting, 0)

    def _validate(self, evaluate: Callable[[], Result]) -> None:
        """Report the held-out figures inside an epoch."""
        self._keep_before_first_evaluation()
        begin = time.monotonic()
        result = evaluate()
        self.progress.epoch_start += time.monotonic() - begin
        figures = held_out_figures(self.task.metric, result.metrics, result.more)
        if self.strategy.rank == 0:
            epoch, step = self.position.epoch + 1, self.position.step
            self.records.emit("validation", epoch=epoch, step=step, **figures)
            self.events.scalars(self.position.step, **figures)

    def _means(self) -> dict[str, float]:
        """The means of the epoch so far."""
        means = metrics_of(self.tallies)
        return {"loss": means.loss, self.task.metric: means.score}

    def _decide(self, decision: Decision) -> None:
        """Do what callbacks have decided."""
        scale, stopped = decision.rate_scale, decision.stop or self.position.stopped
        self.position = replace(self.position, rate_scale=scale, stopped=stopped)
        self.learner.rate.scale.assign(scale)

    def _count_position(self) -> None:
        samples = min(self.position.samples + self.plan.global_batch, self.plan.samples)
        self.position = replace(self.position, step=self.position.step + 1, samples=samples)
        self.events.profile(self.position.step)

    def _drain(self, waiting: deque[tuple[Any, float]], most: int) -> None:
        """Take the results of steps until at most `most` are still being computed."""
        while len(waiting) > most:
            pending, waited = waiting.popleft()
            result = self.strategy.fetch(pending).astype(np.float64)
            self._check_finite(result, self.progress.step + 1)
            self.tallies += result[:SUMS]
            self.position = replace(self.position, tallies=tuple(self.tallies.tolist()))
            self.progress.count(result[1], waited, partial(_mean_loss, self.tallies.copy()))

    def _check_finite(self, result: Any, step: int) -> None:
        replicas = np.flatnonzero(result[SUMS : SUMS + self.strategy.size])
        check_finite(
            result[SUMS + self.strategy.size :],
            [text.replace("{step}", str(step)) for text in self.watched],
            sorted({int(replica) // len(self.strategy.replicas) for replica in replicas}),
            f"lower learning_rate ({self.config.learning_rate}, here {self.learner.rate.peak:g}) "
            "or look for such values in the data",
        )

    def _end_epoch(self, held_out: Metrics) -> None:
        """The position after an epoch; the best model so far may get a checkpoint."""
        best = self.position.best
        better = math.isfinite(held_out.loss) and (best is None or held_out.loss < best)
        self.position = replace(
            self.position,
            epoch=self.position.epoch + 1,
            samples=0,
            tallies=(0.0,) * SUMS,
            best=held_out.loss if better else best,
            waited=0 if better else self.position.waited + 1,
        )
        if better:
            with self.learner.averages.in_model():
                self.state.keep_best(self.model)
        if self.position.epoch == self.config.unfreeze_epochs:
            self.learner.unfreeze()
            self._compile_step()
            peak = self.learner.rate.peak
            self._say(f"epoch {self.position.epoch}: all layers are unfrozen; rate up to {peak:g}")
        if better and self.state.due_for_best():
            self._save()

    def _should_stop(self) -> bool:
        """Early stopping, after unfreeze_epochs: all ranks have the same held-out loss, so they
        agree."""
        position = self.position
        waited = min(position.waited, position.epoch - self.config.unfreeze_epochs)
        return position.stopped or 0 < self.config.early_stopping <= waited

    def _keep_before_first_evaluation(self) -> None:
        """Save a checkpoint before held-out files are read for the first time: if a broken one ends
        the training, it can continue from here."""
        lazy = not isinstance(self.data.validation, Arrays)
        if lazy and self.state.enabled and self.saved is None:
            self._save()

    def _save(self) -> None:
        self.saved = self.position.step
        self.state.save(self.position, self.model, self.optimizer, self.callbacks.state())

    def _finish(self, result: Result | None, evaluate: Callable[[], Result]) -> Evaluation:
        """The last checkpoint, the exports, and then the evaluation: if held-out data cannot be
        read, the model already exists. `result` is that of the last epoch."""
        if self.state.enabled:
            self.position = replace(self.position, done=True)
            self._save()
            self.state.finish()
        self.learner.averages.stay_in_model()
        epoch = self._choose_epoch()
        if self.overfit and epoch == self.position.epoch:
            self._say(self.overfit)
        self.strategy.values(tensors_of(self.model.weights))  # some are reduced as they are read
        if self.strategy.rank == 0:
            export(self.model, self.data, self.config, self.job.results)
        self.strategy.total(np.zeros(1))  # a failing process ends the others: after the export
        if self.data.test is not None:
            result = self._evaluator(self.data.test)()
        elif result is None or epoch != self.position.epoch:
            result = evaluate()
        evaluation = judge(result.metrics, self.config.min_accuracy, self.task.metric)
        if self.strategy.rank == 0:
            self._write(evaluation, result, epoch)
        return evaluation

    def _choose_epoch(self) -> int:
        """The epoch whose model is exported, from 1; the model gets its weights."""
        last, best = self.position.epoch, self.position.epoch - self.position.waited
        has_best = best == last and not self.position.samples  # no step since
        if not self.config.exports_best or self.position.best is None or has_best:
            return last
        restored = self.state.restore_best(self.model)
        loss = f"the held-out loss of epoch {best} was the lowest, {self.position.best:g}: "
        text = (
            "its model is exported, not the last one (restore_best=off exports the last)"
            if restored
            else "the checkpoint does not have its model, so the last one is exported"
        )
        self._say(loss + text)
        return best if restored else last

    def _write(self, evaluation: Evaluation, result: Result, epoch: int) -> None:
        held_out = HeldOut(*self.data.held_out, self.data.names)
        model = self.job.results / MODEL
        more = {"epoch": epoch}
        write(self.job, self.records, self.model, model, held_out, evaluation, result, more)


def _mean_loss(tallies: Any) -> float:
    return metrics_of(tallies).loss

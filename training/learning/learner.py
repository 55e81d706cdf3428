"""The model and what trains it: optimizer, learning rate and averages of the weights.

With `unfreeze_epochs` there are two phases, as with two calls of Keras' `fit`: in the second one,
all layers are trained by an optimizer that begins anew.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..config import ConfigError, TrainConfig
from ..data import Dataset
from ..input_pipeline import Plan
from ..models.build import build_model
from ..models.unfreeze import frozen_layers, unfreeze
from ..strategies.protocol import Strategy
from ..tasks import Task
from ..variables import is_seed
from .averages import Averages
from .optimizer import build_optimizer, schedule


class Learner:
    """Ranks differ in their dropouts; all start with rank 0's weights."""

    def __init__(
        self,
        config: TrainConfig,
        strategy: Strategy,
        data: Dataset,
        task: Task,
        plan: Plan,
        total: int,
        epoch: int,
    ) -> None:
        """The state after `epoch` epochs; `total` counts the steps of the training.

        Raises:
            TrainingError: the model does not take the data.
            ConfigError: it has nothing to unfreeze.
        """
        self.config, self.strategy, self.plan, self.total = config, strategy, plan, total
        keras.utils.set_random_seed(config.seed + strategy.rank)
        with strategy.scope():
            self.model = build_model(data.inputs, task.outputs(data.classes), config)
            if config.unfreeze_epochs and not frozen_layers(self.model):
                text = "unfreeze_epochs needs a model with frozen layers, such as transfer, not "
                raise ConfigError(text + config.model)
            if 0 < config.unfreeze_epochs <= epoch:
                unfreeze(self.model)
            self._start_phase(epoch)
        draw_apart(self.model, strategy)
        # Divides the loss, so that the size of an update does not depend on the unit of numeric
        # labels.
        regression = config.task == "regression"
        self.unit = data.inputs.moments().label_deviation ** 2 if regression else 1.0

    def unfreeze(self) -> None:
        """Begin the second phase."""
        self.averages.stay_in_model()
        scale = self.rate.scale.numpy()
        unfreeze(self.model)
        with self.strategy.scope():
            self._start_phase(self.config.unfreeze_epochs)
        self.rate.scale.assign(scale)

    def _start_phase(self, epoch: int) -> None:
        """The optimizer of all weights that are trained now."""
        second = 0 < self.config.unfreeze_epochs <= epoch
        self.rate = schedule(
            self.config,
            global_batch=self.plan.global_batch,
            steps=self.plan.steps,
            total=self.total,
            start=self.config.unfreeze_epochs * self.plan.steps if second else 0,
        )
        self.optimizer = build_optimizer(self.config, self.rate)
        self.optimizer.build(self.model.trainable_variables)
        self.averages = Averages(self.optimizer)


def draw_apart(model: Any, strategy: Strategy) -> None:
    """Give each replica's random layers their own seed. Under tf.distribute, Keras 3.15 gives all
    replicas the first one's seed: each would drop the same units of the sample at the same place
    in its batch."""
    for variable in filter(is_seed, model.variables):
        seed, count = variable.value.numpy()
        seeds = [(seed + replica, count) for replica in strategy.replicas]
        strategy.assign_replicas(variable.value, np.array(seeds, np.uint32))

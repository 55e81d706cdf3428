"""Faults in the training: its steps, its replicas, its checkpoints, its data and its server."""

from __future__ import annotations

from . import Mutant

STRATEGIES = "tests/training/strategies/test_strategies.py"

MUTANTS = [
    Mutant(
        what="two replicas make steps twice as long as one: each divides by its own batch",
        file="training/learning/step.py",
        old="loss = tf.reduce_sum(tf.where(weights > 0, losses, 0.0)) / total",
        new="loss = tf.reduce_sum(tf.where(weights > 0, losses, 0.0)) / tf.reduce_sum(weights)",
        caught_by=(
            "tests/training/learning/cases_steps.py::two_replicas_with_padding_make_the_model_of_one",
        ),
    ),
    Mutant(
        what="padding counts in the loss and the accuracy that are reported",
        file="training/learning/step.py",
        old="counted = weights > 0",
        new="counted = weights >= 0",
        caught_by=("tests/training/learning/cases_steps.py::the_accuracy_counts_no_padding",),
    ),
    Mutant(
        what="a resumed epoch begins at its first sample: some are trained twice",
        file="training/train.py",
        old="            position=self.position,\n        )\n        self.position = replace(",
        new="            position=replace(self.position, samples=0),\n        )\n"
        "        self.position = replace(",
        caught_by=(
            "tests/training/checkpoints/cases_checkpoints.py"
            "::an_interrupted_training_ends_as_the_uninterrupted_one",
        ),
    ),
    Mutant(
        what="after a resume every rank drops out the same units",
        file="training/checkpoints/state.py",
        old="rows[:, 1] = values[1]",
        new="rows[:] = values",
        caught_by=(
            "tests/training/checkpoints/cases_checkpoints.py::each_replica_drops_other_units_also_after_a_resume",
        ),
    ),
    Mutant(
        what="early stopping waits anew after each resume",
        file="training/checkpoints/state.py",
        old='values |= {"done"',
        new='values |= {"waited": 0, "done"',
        caught_by=(
            "tests/training/cases_settings.py"
            "::early_stopping_is_the_same_on_all_replicas_and_after_a_resume",
        ),
    ),
    Mutant(
        what="each rank of Horovod begins with its own weights",
        file="training/strategies/horovod.py",
        old="self.hvd.broadcast_variables(list(variables), root_rank=0)",
        new="list(variables)",
        caught_by=(f"{STRATEGIES}::test_horovod_makes_the_same_model_on_every_rank",),
    ),
    Mutant(
        what="with compression the counts of samples are rounded to 11 bits",
        file="training/strategies/horovod.py",
        old="total = hvd.allreduce(tallies, op=hvd.Sum)  # counts need all their digits",
        new="total = hvd.allreduce(tallies, op=hvd.Sum, compression=self.compression)",
        caught_by=(f"{STRATEGIES}::test_horovod_with_its_own_settings_learns_the_same",),
    ),
    Mutant(
        what="where there is a chief, it and the first worker are both rank 0",
        file="training/strategies/distributed.py",
        old='before = cluster.get("chief", 0) if resolver.task_type == "worker" else 0',
        new="before = 0",
        caught_by=(f"{STRATEGIES}::test_multiworker_makes_the_same_model_and_one_file",),
    ),
    Mutant(
        what="the exported model has the moving averages of the first replica alone",
        file="training/strategies/distributed.py",
        old='variable.assign(self.strategy.reduce("MEAN", values, axis=None))',
        new="pass",
        caught_by=(
            "tests/training/checkpoints/cases_checkpoints.py::moving_averages_go_on_as_each_replica_had_them",
        ),
    ),
    Mutant(
        what="a checkpoint has its name before its arrays are on the disk",
        file="training/checkpoints/checkpoint.py",
        old="        os.fsync(file.fileno())\n",
        new="",
        caught_by=("tests/training/checkpoints/test_checkpoint.py",),
    ),
    Mutant(
        what="a kill while the last checkpoint is written again leaves none",
        file="training/checkpoints/checkpoint.py",
        old="elif not exchanged(partial, final):",
        new="elif True:",
        caught_by=("tests/training/checkpoints/test_checkpoint.py", "-k", "kill"),
    ),
    Mutant(
        what="a checkpoint that is written late has the weights of later steps",
        file="training/checkpoints/state.py",
        old="iter(list(arrays)) if has_memory else arrays",
        new="arrays",
        caught_by=("tests/training/checkpoints/cases_checkpoint_thread.py",),
    ),
    Mutant(
        what="the exported model is the last one, its evaluation that of the best epoch",
        file="training/checkpoints/state.py",
        old="        self._assign(model.weights, self.best or None)\n",
        new="",
        caught_by=(
            "tests/training/cases_results.py"
            "::the_best_epoch_is_exported_and_evaluated_after_early_stopping",
        ),
    ),
    Mutant(
        what="new data is read with its own numbers of classes, not with the model's",
        file="training/data/splits.py",
        old="    return samples.renumbered(own_numbers, classes)\n",
        new="    return samples\n",
        caught_by=("tests/training/data/cases_tables.py::validation_data_may_lack_a_class",),
    ),
    Mutant(
        what="an interrupted download is verified by the hash of its second half",
        file="training/data/cache.py",
        old="                    self.digest.update(piece)\n",
        new="                    pass\n",
        caught_by=(
            "tests/training/data/test_download.py::test_an_interrupted_download_goes_on_where_it_was",
        ),
    ),
    Mutant(
        what="two hosts read the same files of a bucket",
        file="training/data/part.py",
        old="[self.index :: self.count]",
        new="[:: self.count]",
        caught_by=(
            "tests/training/data/test_download.py::test_parts_are_disjoint_and_share_the_manifest",
        ),
    ),
    Mutant(
        what="a stream that begins inside a shard reads from the indexed record before",
        file="training/data/shards/stream.py",
        old="        skip=skip,\n",
        new="        skip=0,\n",
        caught_by=("tests/training/data/test_stream.py",),
    ),
    Mutant(
        what="an epoch that continues trains again what its first window had before",
        file="training/data/shards/lanes.py",
        old="yield order[self.inside if number == self.first else 0 :]",
        new="yield order",
        caught_by=("tests/training/data/test_lanes.py",),
    ),
    Mutant(
        what="a checkpoint of the first order continues in the second one",
        file="training/input_pipeline.py",
        old="        order=position.order,\n",
        new="",
        caught_by=(
            "tests/training/data/cases_shards.py::a_checkpoint_of_the_first_order_continues_in_it",
        ),
    ),
    Mutant(
        what="two writers of a manifest have one file of columns",
        file="training/data/shards/columns.py",
        old='"file": f"manifest-{digest[:16]}.columns"',
        new='"file": "manifest-0000000000000000.columns"',
        caught_by=(
            "tests/training/data/test_manifest.py::test_of_two_writers_one_manifest_is_whole",
        ),
    ),
    Mutant(
        what="a client of a batch gets the rows of another",
        file="training/serving/batching.py",
        old="{name: array[end - rows_of(call) : end] for name, array in outputs.items()}",
        new="{name: array[: rows_of(call)] for name, array in outputs.items()}",
        caught_by=("tests/training/serving/test_serving_batches.py",),
    ),
    Mutant(
        what="a version that does not load ends the server if the other one has no folder now",
        file="training/serving/versions.py",
        old="        if self.current is None:\n            reasons",
        new="        if True:\n            reasons",
        caught_by=("tests/training/serving/test_serving_versions.py",),
    ),
    Mutant(
        what="a slow model's request has no time limit",
        file="training/serving/app.py",
        old="return await asyncio.wait_for(self._result(body, number), self.settings.timeout_s)",
        new="return await self._result(body, number)",
        caught_by=("tests/training/serving/test_serving.py::test_limits_of_time_and_number",),
    ),
]

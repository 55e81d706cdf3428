"""Names below `keras` and `tf.keras` that only one Keras has.

From keras 3.15.1 and tf_keras 2.18.0; tests/bootstrap/host/causes compares them with a runtime's
packages. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# By module. ONLY_2 and ONLY_3: neither `keras` nor `tf.keras` of the other one has them.
# NOT_IN_KERAS_3: of Keras 3, `tf.keras` has them and `keras` does not.
ONLY_2 = {
    "": "dtensor estimator experimental",
    "applications": "regnet resnet_rs",
    "backend": "experimental function in_test_phase in_train_phase learning_phase "
    "learning_phase_scope local_conv1d local_conv2d manual_variable_initialization "
    "normalize_batch_in_training placeholder print_tensor random_binomial reset_uids "
    "set_learning_phase",
    "callbacks": "BaseLogger SidecarEvaluatorModelExport experimental",
    "constraints": "RadialConstraint radial_constraint",
    "layers": "AbstractRNNCell DenseFeatures LocallyConnected1D LocallyConnected2D experimental",
    "metrics": "MeanRelativeError MeanTensor experimental",
    "models": "experimental model_from_config model_from_yaml",
    "optimizers": "experimental legacy",
    "utils": "GeneratorEnqueuer OrderedEnqueuer SequenceEnqueuer SidecarEvaluator "
    "StepsPerExecutionTuner TimedThread experimental to_ordinal warmstart_embedding_matrix",
}
ONLY_3 = {
    "": "DTypePolicy FloatDTypePolicy Function Initializer InputSpec KerasTensor Layer Loss "
    "Metric Operation Optimizer Quantizer Regularizer RematScope StatelessScope "
    "SymbolicScope Variable config device distillation distribution dtype_policies "
    "name_scope ops quantizers random remat tree",
    "activations": "celu glu hard_shrink hard_silu hard_swish hard_tanh leaky_relu log_sigmoid "
    "log_softmax relu6 silu soft_shrink sparse_plus sparse_sigmoid sparsemax squareplus "
    "tanh_shrink threshold",
    "callbacks": "OrbaxCheckpoint SwapEMAWeights",
    "datasets": "california_housing",
    "initializers": "IdentityInitializer OrthogonalInitializer STFT STFTInitializer stft",
    "layers": "AdaptiveAveragePooling1D AdaptiveAveragePooling2D AdaptiveAveragePooling3D "
    "AdaptiveMaxPooling1D AdaptiveMaxPooling2D AdaptiveMaxPooling3D AugMix AutoContrast "
    "ContrastLimitedAdaptiveHistogramEqualization CutMix Equalization FlaxLayer "
    "GroupQueryAttention JaxLayer MaxNumBoundingBoxes MelSpectrogram MixUp Pipeline "
    "RMSNormalization RandAugment RandomColorDegeneration RandomColorJitter "
    "RandomElasticTransform RandomErasing RandomGaussianBlur RandomGrayscale RandomHue "
    "RandomInvert RandomPerspective RandomPosterization RandomSaturation RandomSharpness "
    "RandomShear ReversibleEmbedding STFTSpectrogram Solarization TFSMLayer "
    "TorchModuleWrapper",
    "losses": "CTC CategoricalGeneralizedCrossEntropy Circle Dice Tversky "
    "categorical_generalized_cross_entropy circle ctc dice tversky",
    "metrics": "ConcordanceCorrelation PearsonCorrelation categorical_hinge "
    "concordance_correlation huber pearson_correlation",
    "mixed_precision": "DTypePolicy dtype_policy set_dtype_policy",
    "optimizers": "Lamb LossScaleOptimizer MultiOptimizer Muon OptimizerMap ScheduleFreeAdamW",
    "saving": "CustomObjectScope KerasFileEditor load_weights save_weights",
    "utils": "PyDataset bounding_boxes",
}
NOT_IN_KERAS_3 = {
    "backend": "abs all any arange argmax argmin batch_dot batch_flatten batch_get_value "
    "batch_normalization batch_set_value bias_add binary_crossentropy "
    "binary_focal_crossentropy cast cast_to_floatx categorical_crossentropy "
    "categorical_focal_crossentropy clip concatenate constant conv1d conv2d "
    "conv2d_transpose conv3d cos count_params ctc_batch_cost ctc_decode "
    "ctc_label_dense_to_sparse cumprod cumsum depthwise_conv2d dot dropout dtype elu equal "
    "eval exp expand_dims eye flatten foldl foldr gather get_value gradients greater "
    "greater_equal hard_sigmoid in_top_k int_shape is_sparse l2_normalize less less_equal "
    "log map_fn max maximum mean min minimum moving_average_update name_scope ndim "
    "not_equal one_hot ones ones_like permute_dimensions pool2d pool3d pow prod "
    "random_bernoulli random_normal random_normal_variable random_uniform "
    "random_uniform_variable relu repeat repeat_elements reshape resize_images "
    "resize_volumes reverse rnn round separable_conv2d set_value shape sigmoid sign sin "
    "softmax softplus softsign sparse_categorical_crossentropy spatial_2d_padding "
    "spatial_3d_padding sqrt square squeeze stack std stop_gradient sum switch tanh "
    "temporal_padding tile to_dense transpose truncated_normal update update_add "
    "update_sub var variable zeros zeros_like",
    "layers": "RandomHeight RandomWidth ThresholdedReLU",
    "losses": "KLD MAE MAPE MSE MSLE Reduction kld kullback_leibler_divergence logcosh mae mape "
    "mse msle",
    "metrics": "KLD MAE MAPE MSE MSLE kld kullback_leibler_divergence logcosh mae mape mse msle",
    "preprocessing": "text",
    "preprocessing.image": "DirectoryIterator ImageDataGenerator Iterator NumpyArrayIterator "
    "apply_affine_transform apply_brightness_shift apply_channel_shift random_brightness "
    "random_channel_shift random_rotation random_shear random_shift random_zoom",
    "preprocessing.sequence": "TimeseriesGenerator make_sampling_table skipgrams",
}


def paths(table: Mapping[str, str]) -> Iterator[str]:
    """The names of a table with their modules, such as `layers.DenseFeatures`."""
    for module, names in table.items():
        yield from (f"{module}.{name}".lstrip(".") for name in names.split())


# Our patches add it to Keras 3 for parameter servers: keras_patches/parameter_server.py.
PROVIDED = "utils.experimental.DatasetCreator"
_PATHS_2, _PATHS_3 = {*paths(ONLY_2)}, {*paths(ONLY_3)}
_PATHS_NOT_IN_KERAS_3 = {*paths(NOT_IN_KERAS_3)}


def keras_with(path: str, *, of_tensorflow: bool) -> int | None:
    """The one Keras, 2 or 3, that has a name such as `layers.LocallyConnected1D`; None for both.
    `of_tensorflow`: the name is looked up in `tf.keras`, not in `keras`."""
    if path == PROVIDED:
        return None
    parts = path.split(".")
    above = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    if above & _PATHS_2 or (not of_tensorflow and above & _PATHS_NOT_IN_KERAS_3):
        return 2
    return 3 if above & _PATHS_3 else None

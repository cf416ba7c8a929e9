// ggml-opt.h: training.
//
// ggml_opt_fit() trains a model on a data set; ggml_opt_epoch() is one pass over it; below them a context
// (ggml_opt_context_t) builds, allocates and evaluates graphs batch by batch. The last dimension of inputs, outputs and
// labels counts data points.

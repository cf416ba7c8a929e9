// ggml-opt.h: training.
//
// ggml_opt_fit() trains a model on a data set. ggml_opt_epoch() is one pass over the data. Below them, a training run
// (ggml_opt_context_t) builds, allocates and evaluates graphs batch by batch. The last dimension of inputs, outputs and
// labels is the number of data points.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#include <stdint.h>

@{

@ struct ggml_opt_dataset struct ggml_opt_context struct ggml_opt_result ggml_opt_dataset_t ggml_opt_context_t
@ ggml_opt_result_t

//
// Loss
//

@ enum ggml_opt_loss_type

//
// Data sets
//

@ ggml_opt_dataset_init ggml_opt_dataset_free ggml_opt_dataset_ndata ggml_opt_dataset_data ggml_opt_dataset_labels
@ ggml_opt_dataset_shuffle ggml_opt_dataset_get_batch ggml_opt_dataset_get_batch_host

//
// Models and contexts
//

@ enum ggml_opt_build_type enum ggml_opt_optimizer_type struct ggml_opt_adamw_params struct ggml_opt_sgd_params
@ struct ggml_opt_optimizer_params ggml_opt_get_optimizer_params
@ ggml_opt_get_default_optimizer_params ggml_opt_get_constant_optimizer_params struct ggml_opt_params
@ ggml_opt_default_params ggml_opt_init ggml_opt_free ggml_opt_reset ggml_opt_static_graphs ggml_opt_inputs
@ ggml_opt_outputs ggml_opt_labels ggml_opt_loss ggml_opt_pred ggml_opt_ncorrect ggml_opt_grad_acc
@ ggml_opt_context_optimizer_type ggml_opt_optimizer_name

//
// Results
//

@ ggml_opt_result_init ggml_opt_result_free ggml_opt_result_reset ggml_opt_result_ndata ggml_opt_result_loss
@ ggml_opt_result_pred ggml_opt_result_accuracy

//
// Computation
//

@ ggml_opt_prepare_alloc ggml_opt_alloc ggml_opt_eval

//
// Training loops
//

@ ggml_opt_epoch_callback ggml_opt_epoch ggml_opt_epoch_callback_progress_bar ggml_opt_fit

@}

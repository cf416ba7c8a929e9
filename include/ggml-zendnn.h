// ggml-zendnn.h: AMD processors by ZenDNN.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// A backend, freed with `ggml_backend_free`; NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_zendnn_init(void);

/// Whether a backend is one of this kind.
GGML_BACKEND_API bool ggml_backend_is_zendnn(ggml_backend_t backend);

/// Sets the threads that compute.
GGML_BACKEND_API void ggml_backend_zendnn_set_n_threads(ggml_backend_t backend_zendnn, int n_threads);

/// The family of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_zendnn_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

// ggml-blas.h: matrix products by a BLAS library.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// A backend, freed with `ggml_backend_free`.
GGML_BACKEND_API ggml_backend_t ggml_backend_blas_init(void);

/// Whether a backend is one of this kind.
GGML_BACKEND_API bool ggml_backend_is_blas(ggml_backend_t backend);

/// Sets the threads that convert to single precision, and those of the BLAS library where it lets itself be told.
GGML_BACKEND_API void ggml_backend_blas_set_n_threads(ggml_backend_t backend_blas, int n_threads);

/// The family, with its one device.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_blas_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

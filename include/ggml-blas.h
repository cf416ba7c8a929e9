// ggml-blas.h: matrix products with a BLAS library.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Creates a backend. Free it with `ggml_backend_free`.
GGML_BACKEND_API ggml_backend_t ggml_backend_blas_init(void);

/// Returns whether this is a backend of this kind.
GGML_BACKEND_API bool ggml_backend_is_blas(ggml_backend_t backend);

/// Sets the number of threads that convert to single precision, and of the BLAS library if it can be set.
GGML_BACKEND_API void ggml_backend_blas_set_n_threads(ggml_backend_t backend_blas, int n_threads);

/// Returns the registration of the backend, which has one device.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_blas_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

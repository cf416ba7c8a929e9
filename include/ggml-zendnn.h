// ggml-zendnn.h: AMD processors, with ZenDNN.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Creates a backend. Free it with `ggml_backend_free`. Returns NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_zendnn_init(void);

/// Returns whether this is a backend of this kind.
GGML_BACKEND_API bool ggml_backend_is_zendnn(ggml_backend_t backend);

/// Sets the number of threads.
GGML_BACKEND_API void ggml_backend_zendnn_set_n_threads(ggml_backend_t backend_zendnn, int n_threads);

/// Returns the registration of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_zendnn_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

// ggml-metal.h: Apple GPUs, with Metal.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Creates a backend on the first device. Free it with `ggml_backend_free`. Returns NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_metal_init(void);

/// Returns whether this is a backend of this kind.
GGML_BACKEND_API bool ggml_backend_is_metal(ggml_backend_t backend);

/// Sets the callback that can stop a computation.
GGML_BACKEND_API void ggml_backend_metal_set_abort_callback(ggml_backend_t backend,
                                                            ggml_abort_callback abort_callback,
                                                            void *user_data);

/// Returns whether the device belongs to an Apple GPU family, given by the number in its name.
GGML_BACKEND_API bool ggml_backend_metal_supports_family(ggml_backend_t backend, int family);

/// Captures the next graph for Apple's tools.
GGML_BACKEND_API void ggml_backend_metal_capture_next_compute(ggml_backend_t backend);

/// Returns the registration of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_metal_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

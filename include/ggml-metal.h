// ggml-metal.h: Apple's graphics processors, by Metal.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// A backend on the first device, freed with `ggml_backend_free`; NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_metal_init(void);

/// Whether a backend is one of this kind.
GGML_BACKEND_API bool ggml_backend_is_metal(ggml_backend_t backend);

/// Sets who is asked, while a graph is computed, whether to stop.
GGML_BACKEND_API void ggml_backend_metal_set_abort_callback(ggml_backend_t backend,
                                                            ggml_abort_callback abort_callback,
                                                            void *user_data);

/// Whether the device belongs to a family of Apple's, by the number after the family's name.
GGML_BACKEND_API bool ggml_backend_metal_supports_family(ggml_backend_t backend, int family);

/// Records the next graph for Apple's tools.
GGML_BACKEND_API void ggml_backend_metal_capture_next_compute(ggml_backend_t backend);

/// The family of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_metal_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

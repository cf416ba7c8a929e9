// ggml-hexagon.h: Qualcomm Hexagon processors.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// A backend, freed with `ggml_backend_free`; NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_hexagon_init(void);

/// Whether a backend is one of this kind.
GGML_BACKEND_API bool ggml_backend_is_hexagon(ggml_backend_t backend);

/// The family of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_hexagon_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

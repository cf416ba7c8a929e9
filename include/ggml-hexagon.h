// ggml-hexagon.h: Qualcomm Hexagon processors.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Creates a backend. Free it with `ggml_backend_free`. Returns NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_hexagon_init(void);

/// Returns whether this is a backend of this kind.
GGML_BACKEND_API bool ggml_backend_is_hexagon(ggml_backend_t backend);

/// Returns the registration of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_hexagon_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

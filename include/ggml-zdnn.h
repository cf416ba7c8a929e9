// ggml-zdnn.h: the processors of IBM Z by zDNN.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Memory of the device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_zdnn_buffer_type(void);

/// Whether a backend is one of this kind.
GGML_BACKEND_API bool ggml_backend_is_zdnn(ggml_backend_t backend);

/// The family of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_zdnn_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

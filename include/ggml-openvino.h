// ggml-openvino.h: Intel's processors of all kinds, by OpenVINO.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml-backend.h"

#include <stddef.h>
#ifdef __cplusplus
#    include <cstring> // hosts have it from here with the original
#endif

/// Name of the backend.
#define GGML_OPENVINO_NAME "OPENVINO"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// A backend on one device, freed with `ggml_backend_free`; NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_openvino_init(int device);

/// Whether a backend is one of this kind.
GGML_BACKEND_API bool ggml_backend_is_openvino(ggml_backend_t backend);

/// Whether a buffer is in the memory of such a device.
GGML_BACKEND_API bool ggml_backend_buffer_is_openvino(ggml_backend_buffer_t buffer);

/// Whether a buffer type is the memory of such a device.
GGML_BACKEND_API bool ggml_backend_buft_is_openvino(ggml_backend_buffer_type_t buft);

/// Whether a buffer type is the memory of the host that such a device reads.
GGML_BACKEND_API bool ggml_backend_buft_is_openvino_host(ggml_backend_buffer_type_t buft);

/// The number of a buffer's context, which no other has.
GGML_BACKEND_API size_t ggml_backend_openvino_buffer_get_ctx_id(ggml_backend_buffer_t buffer);

/// Memory of a device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_openvino_buffer_type(int device);

/// Memory of the host that a device reads.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_openvino_host_buffer_type(int device);

/// Number of devices.
GGML_BACKEND_API int ggml_backend_openvino_get_device_count(void);

/// The family of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_openvino_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

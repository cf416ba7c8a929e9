// ggml-cann.h: Ascend processors, by CANN.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

/// Devices the backend uses at most.
#define GGML_CANN_MAX_DEVICES 16

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// The family of all CANN devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_cann_reg(void);

/// A backend on one device, freed with `ggml_backend_free`; NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_cann_init(int32_t device);

/// Whether a backend is one of this kind.
GGML_BACKEND_API bool ggml_backend_is_cann(ggml_backend_t backend);

/// Memory of a device; NULL when there is no such device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_cann_buffer_type(int32_t device);

/// Number of devices.
GGML_BACKEND_API int32_t ggml_backend_cann_get_device_count(void);

/// Memory of the host from which copies to devices are fast.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_cann_host_buffer_type(void);

/// Writes the name of a device, cut to `description_size` bytes.
GGML_BACKEND_API void ggml_backend_cann_get_device_description(int32_t device,
                                                               char *description,
                                                               size_t description_size);

/// Free and total memory of a device in bytes.
GGML_BACKEND_API void ggml_backend_cann_get_device_memory(int32_t device, size_t *free, size_t *total);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

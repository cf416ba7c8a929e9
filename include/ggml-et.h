// ggml-et.h: Esperanto ET-SoC processors.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

/// Name of the backend.
#define GGML_ET_NAME "ET"

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// The identifier that backends of this kind have.
GGML_BACKEND_API ggml_guid_t ggml_backend_et_guid(void);

/// A backend on one device, freed with `ggml_backend_free`; NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_et_init(size_t devidx);

/// Whether a backend is one of this kind.
GGML_BACKEND_API bool ggml_backend_is_et(ggml_backend_t backend);

/// Number of devices.
GGML_BACKEND_API int ggml_backend_et_get_device_count(void);

/// Writes the name of a device, cut to `description_size` bytes.
GGML_BACKEND_API void ggml_backend_et_get_device_description(int devidx, char *description, size_t description_size);

/// Free and total memory of a device in bytes.
GGML_BACKEND_API void ggml_backend_et_get_device_memory(int devidx, size_t *free, size_t *total);

/// Memory of a device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_et_buffer_type(size_t dev_num);

/// Memory of the host from which copies to devices are fast.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_et_host_buffer_type(void);

/// The family of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_et_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

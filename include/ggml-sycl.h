// ggml-sycl.h: Intel's graphics processors, by SYCL.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

/// Name of the backend.
#define GGML_SYCL_NAME "SYCL"

/// Devices the backend uses at most.
#define GGML_SYCL_MAX_DEVICES 48

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// A backend on one device, freed with `ggml_backend_free`; NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_sycl_init(int device);

/// Whether a backend is one of this kind.
GGML_BACKEND_API bool ggml_backend_is_sycl(ggml_backend_t backend);

/// Memory of a device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_sycl_buffer_type(int device);

/// Memory of all devices together: each holds some rows of a matrix, by the shares `tensor_split`.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_sycl_split_buffer_type(int main_device,
                                                                                const float *tensor_split);

/// Prepares `n_backends` backends to add up tensors; NULL when they cannot.
GGML_BACKEND_API void *ggml_backend_sycl_comm_init(ggml_backend_t *backends, size_t n_backends);

/// Frees what `ggml_backend_sycl_comm_init` gave.
GGML_BACKEND_API void ggml_backend_sycl_comm_free(void *comm_ctx);

/// Adds up one tensor from each backend; each gets the sum. False when that failed.
GGML_BACKEND_API bool ggml_backend_sycl_comm_allreduce_tensor(void *comm_ctx, struct ggml_tensor **tensors);

/// Memory of the host from which copies to the first device are fast.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_sycl_host_buffer_type(void);

/// Prints a table of the devices.
GGML_BACKEND_API void ggml_backend_sycl_print_sycl_devices(void);

/// Writes the numbers of at most `max_len` devices.
GGML_BACKEND_API void ggml_backend_sycl_get_gpu_list(int *id_list, int max_len);

/// Writes the name of a device, cut to `description_size` bytes.
GGML_BACKEND_API void ggml_backend_sycl_get_device_description(int device, char *description, size_t description_size);

/// Number of devices.
GGML_BACKEND_API int ggml_backend_sycl_get_device_count(void);

/// Free and total memory of a device in bytes.
GGML_BACKEND_API void ggml_backend_sycl_get_device_memory(int device, size_t *free, size_t *total);

/// The family of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_sycl_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

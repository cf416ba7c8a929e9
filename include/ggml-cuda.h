// ggml-cuda.h: NVIDIA cards by CUDA, AMD cards by HIP, Moore Threads cards by MUSA.
//
// This library has no such backend: its functions are declared, for hosts that name them, and not defined.

#pragma once

#include "ggml.h"
#include "ggml-backend.h"

// Names of the backend and of its library of products: one source is built for three kinds of cards.
#if defined(GGML_USE_HIP)
#    define GGML_CUDA_NAME "ROCm"
#    define GGML_CUBLAS_NAME "hipBLAS"
#elif defined(GGML_USE_MUSA)
#    define GGML_CUDA_NAME "MUSA"
#    define GGML_CUBLAS_NAME "muBLAS"
#else
#    define GGML_CUDA_NAME "CUDA"
#    define GGML_CUBLAS_NAME "cuBLAS"
#endif

/// Devices the backend uses at most.
#define GGML_CUDA_MAX_DEVICES 16

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// A backend on one device, freed with `ggml_backend_free`; NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_cuda_init(int device);

/// Whether a backend is one of this kind.
GGML_BACKEND_API bool ggml_backend_is_cuda(ggml_backend_t backend);

/// Memory of a device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_cuda_buffer_type(int device);

/// Adds up one tensor from each of `n_backends` backends; each gets the sum. False when that cannot be done this way.
GGML_BACKEND_API bool ggml_backend_cuda_allreduce_tensor(ggml_backend_t *backends,
                                                         struct ggml_tensor **tensors,
                                                         size_t n_backends);

/// Memory of the host from which copies to devices are fast.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_cuda_host_buffer_type(void);

/// Number of devices.
GGML_BACKEND_API int ggml_backend_cuda_get_device_count(void);

/// Writes the name of a device, cut to `description_size` bytes.
GGML_BACKEND_API void ggml_backend_cuda_get_device_description(int device, char *description, size_t description_size);

/// Free and total memory of a device in bytes.
GGML_BACKEND_API void ggml_backend_cuda_get_device_memory(int device, size_t *free, size_t *total);

/// Locks memory of the host so that copies from it are fast; false when it cannot be locked.
GGML_BACKEND_API bool ggml_backend_cuda_register_host_buffer(void *buffer, size_t size);

/// Undoes `ggml_backend_cuda_register_host_buffer`.
GGML_BACKEND_API void ggml_backend_cuda_unregister_host_buffer(void *buffer);

/// The family of all devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_cuda_reg(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

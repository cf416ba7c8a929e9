// ggml-rpc.h: devices of other machines, over the network.
//
// This library does not have this backend. Its functions are declared for hosts that mention them, but not defined.
// The original's module libggml-rpc.so defines them, and works with this library if it is loaded (GGML_BACKEND_PATH).

#pragma once

#include "ggml-backend.h"

// Protocol version of the original of this version.
#define RPC_PROTO_MAJOR_VERSION 8
#define RPC_PROTO_MINOR_VERSION 0
#define RPC_PROTO_PATCH_VERSION 1

/// Maximum number of servers.
#define GGML_RPC_MAX_SERVERS 16

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Creates a backend on one device of the server at `endpoint` ("host:port"). Free it with `ggml_backend_free`. Returns
/// NULL on failure.
GGML_BACKEND_API ggml_backend_t ggml_backend_rpc_init(const char *endpoint, uint32_t device);

/// Returns whether this is a backend of this kind.
GGML_BACKEND_API bool ggml_backend_is_rpc(ggml_backend_t backend);

/// Returns the buffer type of one device of a server.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_rpc_buffer_type(const char *endpoint, uint32_t device);

/// Writes the free and the total memory of one device of a server, in bytes.
GGML_BACKEND_API void ggml_backend_rpc_get_device_memory(const char *endpoint,
                                                         uint32_t device,
                                                         size_t *free,
                                                         size_t *total);

/// Serves `n_devices` devices to other machines, until the process ends. Caches weights in the folder `cache_dir`, unless
/// it is NULL.
GGML_BACKEND_API void ggml_backend_rpc_start_server(const char *endpoint,
                                                    const char *cache_dir,
                                                    size_t n_threads,
                                                    size_t n_devices,
                                                    ggml_backend_dev_t *devices);

/// Returns the registration of all servers.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_rpc_reg(void);

/// Returns a registration with the devices of one server, for the host to register.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_rpc_add_server(const char *endpoint);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

// ggml-cpp.h: owning pointers for C++: a std::unique_ptr for each kind of object.

#pragma once

#ifndef __cplusplus
#error "ggml-cpp.h is a C++ header"
#endif

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "gguf.h"

#include <memory>

struct ggml_context_deleter {
    void operator()(ggml_context *ctx) const { ggml_free(ctx); }
};
struct gguf_context_deleter {
    void operator()(gguf_context *ctx) const { gguf_free(ctx); }
};
struct ggml_gallocr_deleter {
    void operator()(ggml_gallocr_t galloc) const { ggml_gallocr_free(galloc); }
};
struct ggml_backend_deleter {
    void operator()(ggml_backend_t backend) const { ggml_backend_free(backend); }
};
struct ggml_backend_buffer_deleter {
    void operator()(ggml_backend_buffer_t buffer) const { ggml_backend_buffer_free(buffer); }
};
struct ggml_backend_event_deleter {
    void operator()(ggml_backend_event_t event) const { ggml_backend_event_free(event); }
};
struct ggml_backend_sched_deleter {
    void operator()(ggml_backend_sched_t sched) const { ggml_backend_sched_free(sched); }
};

/// A context, freed with everything in it.
using ggml_context_ptr = std::unique_ptr<ggml_context, ggml_context_deleter>;
/// The contents of a GGUF file.
using gguf_context_ptr = std::unique_ptr<gguf_context, gguf_context_deleter>;
/// A graph allocator.
using ggml_gallocr_ptr = std::unique_ptr<ggml_gallocr, ggml_gallocr_deleter>;
/// A stream of work on a device.
using ggml_backend_ptr = std::unique_ptr<ggml_backend, ggml_backend_deleter>;
/// Memory of a device.
using ggml_backend_buffer_ptr = std::unique_ptr<ggml_backend_buffer, ggml_backend_buffer_deleter>;
/// An event.
using ggml_backend_event_ptr = std::unique_ptr<ggml_backend_event, ggml_backend_event_deleter>;
/// A scheduler.
using ggml_backend_sched_ptr = std::unique_ptr<ggml_backend_sched, ggml_backend_sched_deleter>;

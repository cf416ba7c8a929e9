// ggml-backend-impl.h: the interface that a backend implements.
//
// A backend fills tables of functions for its registration, devices, buffer types, buffers and streams of work. It owns
// these objects; the library uses them only through the tables. A backend in a module of its own is compiled with
// GGML_BACKEND_DL, contains GGML_BACKEND_DL_IMPL(function_that_returns_the_registration), and is loaded with
// ggml_backend_load().
//
// This interface has a version (GGML_BACKEND_API_VERSION), and is not compatible between versions. A module compiled
// with this header carries a note with the interface it was compiled for; libggml-rs does not load a module that was
// compiled for another one.

#pragma once

#include "ggml-backend.h"
#include "ggml-rs.h"

@{

@ GGML_BACKEND_API_VERSION

//
// Buffer types
//

@ struct ggml_backend_buffer_type_i struct ggml_backend_buffer_type ggml_op_alloc_size_may_expand

//
// Buffers
//

@ struct ggml_backend_buffer_i struct ggml_backend_buffer ggml_backend_buffer_init ggml_backend_buffer_copy_tensor

// Buffers made of several

@ ggml_backend_multi_buffer_alloc_buffer ggml_backend_buffer_is_multi_buffer ggml_backend_multi_buffer_set_usage
@ ggml_backend_meta_buffer_set_usage

//
// Meta backends
//

@ ggml_backend_is_meta ggml_backend_buffer_is_meta ggml_backend_buft_is_meta ggml_backend_meta_n_backends
@ ggml_backend_meta_simple_backend

//
// Backends (streams of work)
//

@ struct ggml_backend_graph_optimize_params struct ggml_backend_i struct ggml_backend struct ggml_backend_event

//
// Devices
//

@ struct ggml_backend_device_i struct ggml_backend_device

//
// Registrations
//

@ struct ggml_backend_reg_i struct ggml_backend_reg

// Loading from shared libraries

@ ggml_backend_init_t ggml_backend_score_t

@}

// Define what ggml_backend_load() looks for in a module. Empty for a backend that is linked in.
#if defined(__cplusplus)
#    define GGML_BACKEND_DL_BEGIN_ extern "C" {
#    define GGML_BACKEND_DL_END_ }
#else
#    define GGML_BACKEND_DL_BEGIN_
#    define GGML_BACKEND_DL_END_
#endif
// The note of a module: an ELF note (in other file formats the same bytes, in their own section) with the digest of the
// interface, the size of names and the version. A module that defines ggml_backend_init() without GGML_BACKEND_DL_IMPL
// must contain GGML_RS_MODULE_NOTE once.
#if defined(__APPLE__)
#    define GGML_RS_NOTE_SECTION_ "__DATA,__ggml_note"
#elif defined(_WIN32)
#    define GGML_RS_NOTE_SECTION_ ".ggmlnt"
#else
#    define GGML_RS_NOTE_SECTION_ ".note.ggml"
#endif
#if defined(__GNUC__) || defined(__clang__)
#    define GGML_RS_MODULE_NOTE                                                                                  \
        static const struct {                                                                                    \
            uint32_t owner_size, size, kind;                                                                     \
            char     owner[8];                                                                                   \
            uint32_t digest_low, digest_high, max_name;                                                          \
            char     version[16];                                                                                \
        } ggml_rs_note __attribute__((section(GGML_RS_NOTE_SECTION_), aligned(4), used)) = {                     \
            8, 28, 1, "ggml-rs", (uint32_t) (GGML_RS_ABI_DIGEST & 0xffffffffu),                                  \
            (uint32_t) (GGML_RS_ABI_DIGEST >> 32), GGML_MAX_NAME, GGML_RS_VERSION                                \
        };
#else
#    define GGML_RS_MODULE_NOTE
#endif
#if defined(GGML_BACKEND_DL)
#    define GGML_BACKEND_DL_DEFINE_(type, name, call) \
        GGML_BACKEND_DL_BEGIN_                        \
        GGML_BACKEND_API type name(void);             \
        GGML_BACKEND_DL_END_                          \
        type name(void) { return call(); }
#    define GGML_BACKEND_DL_IMPL(reg_fn) GGML_RS_MODULE_NOTE GGML_BACKEND_DL_DEFINE_(ggml_backend_reg_t, ggml_backend_init, reg_fn)
#    define GGML_BACKEND_DL_SCORE_IMPL(score_fn) GGML_BACKEND_DL_DEFINE_(int, ggml_backend_score, score_fn)
#else
#    define GGML_BACKEND_DL_IMPL(reg_fn)
#    define GGML_BACKEND_DL_SCORE_IMPL(score_fn)
#endif

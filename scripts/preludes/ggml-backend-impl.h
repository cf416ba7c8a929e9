// ggml-backend-impl.h: what the author of a backend implements.
//
// A backend fills tables of functions: one for its registration, its devices, buffer types, buffers and streams. Objects
// belong to the backend; the library reaches them through these tables only. A backend in a module of its own is compiled
// with GGML_BACKEND_DL, says GGML_BACKEND_DL_IMPL(function_that_returns_the_registration), and is loaded with
// ggml_backend_load().
//
// This interface has a version (GGML_BACKEND_API_VERSION), but promises no compatibility between versions.

//--- after ---
// Exports what ggml_backend_load() looks for in a module; nothing in a backend that is linked in.
#if defined(__cplusplus)
#    define GGML_BACKEND_DL_BEGIN_ extern "C" {
#    define GGML_BACKEND_DL_END_ }
#else
#    define GGML_BACKEND_DL_BEGIN_
#    define GGML_BACKEND_DL_END_
#endif
#if defined(GGML_BACKEND_DL)
#    define GGML_BACKEND_DL_DEFINE_(type, name, call) \
        GGML_BACKEND_DL_BEGIN_                        \
        GGML_BACKEND_API type name(void);             \
        GGML_BACKEND_DL_END_                          \
        type name(void) { return call(); }
#    define GGML_BACKEND_DL_IMPL(reg_fn) GGML_BACKEND_DL_DEFINE_(ggml_backend_reg_t, ggml_backend_init, reg_fn)
#    define GGML_BACKEND_DL_SCORE_IMPL(score_fn) GGML_BACKEND_DL_DEFINE_(int, ggml_backend_score, score_fn)
#else
#    define GGML_BACKEND_DL_IMPL(reg_fn)
#    define GGML_BACKEND_DL_SCORE_IMPL(score_fn)
#endif

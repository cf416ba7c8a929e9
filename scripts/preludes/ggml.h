// ggml.h: tensors, the operations on them, and compute graphs.
//
// A tensor (struct ggml_tensor) is made in a context, which owns it. Functions such as ggml_add() compute nothing: they
// make a new tensor that remembers its operation and its sources. ggml_build_forward_expand() collects what a result
// depends on into a graph, in an order in which it can be computed; a backend, a scheduler (ggml-backend.h) or
// ggml_graph_compute() (ggml-cpu.h) computes it.
//
//     struct ggml_init_params params = { /* mem_size */ 1 << 20, /* mem_buffer */ NULL, /* no_alloc */ false };
//     struct ggml_context * ctx = ggml_init(params);
//     struct ggml_tensor  * x   = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
//     struct ggml_tensor  * y   = ggml_add(ctx, ggml_mul(ctx, x, x), x); // y = x*x + x
//     struct ggml_cgraph  * g   = ggml_new_graph(ctx);
//     ggml_build_forward_expand(g, y);
//     ...                                                                // write x->data
//     ggml_graph_compute_with_ctx(ctx, g, 4);                            // then read y->data
//     ggml_free(ctx);
//
// Shapes are written innermost dimension first: [ne0, ne1, ne2, ne3], where ne0 neighbours lie side by side. "Repeated"
// means that a source whose size divides the result's is used several times along that dimension.
//
// Unless a function says otherwise: pointers must be valid, the context keeps what is returned, and a shape or type that
// an operation does not take ends the process through ggml_abort(), after the callback of ggml_set_abort_callback().

// The function comes from a shared library.
#if !defined(GGML_SHARED)
#    define GGML_API extern
#elif !defined(_WIN32) || defined(__MINGW32__)
#    define GGML_API __attribute__((visibility("default"))) extern
#elif defined(GGML_BUILD)
#    define GGML_API __declspec(dllexport) extern
#else
#    define GGML_API __declspec(dllimport) extern
#endif

// GGML_DEPRECATED(declaration, "what to use instead"), and the attribute alone, to stand before a declaration.
#if defined(__GNUC__)
#    define GGML_DEPRECATED_NOTE(hint) __attribute__((deprecated(hint)))
#    define GGML_DEPRECATED(func, hint) func __attribute__((deprecated(hint)))
#elif defined(_MSC_VER)
#    define GGML_DEPRECATED_NOTE(hint) __declspec(deprecated(hint))
#    define GGML_DEPRECATED(func, hint) __declspec(deprecated(hint)) func
#else
#    define GGML_DEPRECATED_NOTE(hint)
#    define GGML_DEPRECATED(func, hint) func
#endif

// The function takes a format as printf does: number of the format's parameter, number of the first value.
#if defined(__MINGW32__) && defined(__GNUC__) && !defined(__clang__)
#    define GGML_ATTRIBUTE_FORMAT(...) __attribute__((format(gnu_printf, __VA_ARGS__)))
#elif defined(__GNUC__)
#    define GGML_ATTRIBUTE_FORMAT(...) __attribute__((format(printf, __VA_ARGS__)))
#else
#    define GGML_ATTRIBUTE_FORMAT(...)
#endif

// The function does not return.
#if defined(__cplusplus)
#    define GGML_NORETURN [[noreturn]]
#elif defined(_MSC_VER)
#    define GGML_NORETURN __declspec(noreturn)
#else
#    define GGML_NORETURN _Noreturn
#endif

// What the pointer shows is reached through no other pointer.
#if !defined(__cplusplus) && !defined(_MSC_VER)
#    define GGML_RESTRICT restrict
#elif defined(__GNUC__) || defined(_MSC_VER)
#    define GGML_RESTRICT __restrict
#else
#    define GGML_RESTRICT
#endif

// Quiets warnings about unused names.
#define GGML_UNUSED(x) (void) (x)
#if defined(__CUDACC__)
template <typename... T> __host__ __device__ constexpr void ggml_unused_vars_impl(T &&...) noexcept {}
#    define GGML_UNUSED_VARS(...) ggml_unused_vars_impl(__VA_ARGS__)
#else
#    define GGML_UNUSED_VARS(...) (void) sizeof(((int (*)(int, ...)) NULL)(0, __VA_ARGS__))
#endif

// x rounded up to a multiple of n, a power of two.
#define GGML_PAD(x, n) (((x) + (n) - 1) & ~((n) - 1))

// Ends the process with a formatted message; GGML_ASSERT does when the condition is false.
#define GGML_ABORT(...) ggml_abort(__FILE__, __LINE__, __VA_ARGS__)
#define GGML_ASSERT(x)                                \
    do {                                              \
        if (!(x)) {                                   \
            GGML_ABORT("GGML_ASSERT(%s) failed", #x); \
        }                                             \
    } while (0)

// Control never comes here.
#if !defined(NDEBUG)
#    define GGML_UNREACHABLE() GGML_ABORT("unreachable statement reached")
#elif defined(__GNUC__)
#    define GGML_UNREACHABLE() __builtin_unreachable()
#elif defined(_MSC_VER)
#    define GGML_UNREACHABLE() __assume(0)
#else
#    define GGML_UNREACHABLE() ((void) 0)
#endif

/// "ggml" as a little-endian number: the magic of the files from before GGUF.
#define GGML_FILE_MAGIC 0x67676d6c

/// Bytes of a tensor's name, its end mark included. The library is built with this number.
#if !defined(GGML_MAX_NAME)
#    define GGML_MAX_NAME 64
#elif GGML_MAX_NAME != 64
#    error "this libggml is built with GGML_MAX_NAME 64: the layout of struct ggml_tensor depends on it"
#endif

/// Alignment in bytes of everything that lives in a context.
#if UINTPTR_MAX == 0xFFFFFFFF
#    define GGML_MEM_ALIGN 4
#else
#    define GGML_MEM_ALIGN 16
#endif

// GGML_TENSOR_LOCALS(int64_t, ne, t, ne) declares ne0 ... ne3 as the elements of t->ne (0 when t is NULL); the numbered
// ones declare the first one, two or three.
#define GGML_TENSOR_LOCAL_(type, name, index, pointer, array)               \
    const type name##index = (pointer) ? (pointer)->array[index] : 0;       \
    GGML_UNUSED(name##index);
#define GGML_TENSOR_LOCALS_1(type, prefix, pointer, array) GGML_TENSOR_LOCAL_(type, prefix, 0, pointer, array)
#define GGML_TENSOR_LOCALS_2(type, prefix, pointer, array) \
    GGML_TENSOR_LOCALS_1(type, prefix, pointer, array)     \
    GGML_TENSOR_LOCAL_(type, prefix, 1, pointer, array)
#define GGML_TENSOR_LOCALS_3(type, prefix, pointer, array) \
    GGML_TENSOR_LOCALS_2(type, prefix, pointer, array)     \
    GGML_TENSOR_LOCAL_(type, prefix, 2, pointer, array)
#define GGML_TENSOR_LOCALS(type, prefix, pointer, array) \
    GGML_TENSOR_LOCALS_3(type, prefix, pointer, array)   \
    GGML_TENSOR_LOCAL_(type, prefix, 3, pointer, array)

// The shapes and strides of dst and of src0, src1, src2 as an operation wants them: ne0 and nb0 ... of dst, ne00 and
// nb00 ... of src0, ne10 ... of src1, ne20 ... of src2.
#define GGML_TENSOR_SHAPE_(number, tensor)            \
    GGML_TENSOR_LOCALS(int64_t, ne##number, tensor, ne) \
    GGML_TENSOR_LOCALS(size_t, nb##number, tensor, nb)
#define GGML_TENSOR_DST_LOCALS_                \
    GGML_TENSOR_LOCALS(int64_t, ne, dst, ne)   \
    GGML_TENSOR_LOCALS(size_t, nb, dst, nb)
#define GGML_TENSOR_UNARY_OP_LOCALS GGML_TENSOR_SHAPE_(0, src0) GGML_TENSOR_DST_LOCALS_
#define GGML_TENSOR_BINARY_OP_LOCALS01 GGML_TENSOR_SHAPE_(0, src0) GGML_TENSOR_SHAPE_(1, src1)
#define GGML_TENSOR_BINARY_OP_LOCALS GGML_TENSOR_BINARY_OP_LOCALS01 GGML_TENSOR_DST_LOCALS_
#define GGML_TENSOR_TERNARY_OP_LOCALS \
    GGML_TENSOR_BINARY_OP_LOCALS01 GGML_TENSOR_SHAPE_(2, src2) GGML_TENSOR_DST_LOCALS_

/// The bits of a brain float: the upper half of a single-precision number.
typedef struct {
    /// Sign, 8 exponent bits, 7 fraction bits.
    uint16_t bits;
} ggml_bf16_t;

/// The bits of a float in the format E4M3 of OCP FP8.
typedef struct {
    /// Sign, 4 exponent bits (bias 7), 3 fraction bits; all exponent and fraction bits set: NaN.
    uint8_t bits;
} ggml_fp8_e4m3_t;

struct ggml_backend_buffer;
//--- after ---
/// Bytes of a tensor's description.
static const size_t GGML_TENSOR_SIZE = sizeof(struct ggml_tensor);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Ends the process with a message formatted as by printf. The abort callback hears of it first; without one the message
/// and a backtrace go to standard error.
GGML_NORETURN GGML_ATTRIBUTE_FORMAT(3, 4)
GGML_API void ggml_abort(const char *file, int line, const char *fmt, ...);

/// Names a tensor by text formatted as by printf, cut to what fits, and returns the tensor.
GGML_ATTRIBUTE_FORMAT(2, 3)
GGML_API struct ggml_tensor *ggml_format_name(struct ggml_tensor *tensor, const char *fmt, ...);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

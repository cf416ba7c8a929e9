// What ggml's headers and sources take from the C and C++ libraries where they declare something. It is read instead of
// the libraries' own headers, so that the result does not depend on the machine.
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __builtin_va_list va_list;
typedef struct _IO_FILE FILE;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;

#define NULL ((void *) 0)
#define GGML_SHARED
#define GGML_BACKEND_SHARED
#define GGML_COMMON_DECL_C
#define GGML_COMMON_IMPL_C

#ifdef __cplusplus
namespace std {
class string;
class thread;
class mutex;
template <class...> class vector;
template <class...> class map;
template <class...> class set;
template <class...> class unordered_map;
template <class...> class unordered_set;
template <class...> class pair;
template <class...> class tuple;
template <class...> class function;
template <class...> class deque;
template <class...> class unique_ptr;
template <class...> class shared_ptr;
template <class...> class optional;
template <class...> class atomic;
}
#endif

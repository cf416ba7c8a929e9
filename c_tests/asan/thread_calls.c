/* What a library of newer LLVM calls where gcc's run-time library for ThreadSanitizer has only the functions of C,
 * which it watches as well. */
#include <stddef.h>
#include <string.h>

void * __tsan_memcpy(void * to, const void * from, size_t n);
void * __tsan_memmove(void * to, const void * from, size_t n);
void * __tsan_memset(void * to, int value, size_t n);

void * __tsan_memcpy(void * to, const void * from, size_t n) { return memcpy(to, from, n); }
void * __tsan_memmove(void * to, const void * from, size_t n) { return memmove(to, from, n); }
void * __tsan_memset(void * to, int value, size_t n) { return memset(to, value, n); }

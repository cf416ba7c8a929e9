/* The three C-variadic functions of the interface. Stable Rust cannot define variadics, so this file
 * only turns the arguments into text; what the text means is decided in Rust (capi/variadic.rs). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

extern void ggml_rs_abort_text(const char *file, int line, const char *text);
extern void *ggml_rs_set_name_text(void *tensor, const char *text);
extern void ggml_rs_log_text(int level, const char *text);
extern void ggml_rs_resume(void); /* is left by the exception that has left a callback, if one has */

/* Formats into `stack` when the text fits, otherwise into memory that the caller frees. NULL when out of memory. */
static char *format_text(char *stack, size_t stack_size, const char *fmt, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(stack, stack_size, fmt, args);
    char *text = stack;
    if (n < 0) {
        stack[0] = '\0';
    } else if ((size_t) n >= stack_size) {
        text = malloc((size_t) n + 1);
        if (text != NULL) {
            vsnprintf(text, (size_t) n + 1, fmt, again);
        } else {
            text = stack; /* truncated, but said */
        }
    }
    va_end(again);
    return text;
}

void ggml_rs_abort_v(const char *file, int line, const char *fmt, ...) {
    char stack[2048];
    va_list args;
    va_start(args, fmt);
    char *text = format_text(stack, sizeof stack, fmt, args);
    va_end(args);
    ggml_rs_abort_text(file, line, text); /* returns if an exception has left the abort callback */
    if (text != stack) free(text);
    ggml_rs_resume();
    abort();
}

void *ggml_rs_format_name_v(void *tensor, const char *fmt, ...) {
    char stack[256];
    va_list args;
    va_start(args, fmt);
    char *text = format_text(stack, sizeof stack, fmt, args);
    va_end(args);
    void *r = ggml_rs_set_name_text(tensor, text);
    if (text != stack) free(text);
    return r;
}

void ggml_rs_log_v(int level, const char *fmt, ...) {
    char stack[1024];
    va_list args;
    va_start(args, fmt);
    char *text = format_text(stack, sizeof stack, fmt, args);
    va_end(args);
    ggml_rs_log_text(level, text);
    if (text != stack) free(text);
    ggml_rs_resume();
}

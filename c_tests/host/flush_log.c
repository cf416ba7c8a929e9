// Preloaded into programs of llama.cpp: at their end, prints the rest of their log. A thread prints the log, also the
// results of a program, and no program waits for it (common/log.h): up to 511 pieces of text could be lost.

#include <dlfcn.h>
#include <stddef.h>

__attribute__((destructor)) static void flush(void) {
    // common_log_main() and common_log_flush(common_log *) of libllama-common; other programs have neither.
    void * (*log)(void) = (void * (*)(void)) dlsym(RTLD_DEFAULT, "_Z15common_log_mainv");
    void (*flush)(void *) = (void (*)(void *)) dlsym(RTLD_DEFAULT, "_Z16common_log_flushP10common_log");
    if (log != NULL && flush != NULL) { flush(log()); }
}

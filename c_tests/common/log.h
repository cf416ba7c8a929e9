/* What the log says while a program runs: races that the library's checker reports, and errors. */
#ifndef C_TESTS_LOG_H
#define C_TESTS_LOG_H

#include "ggml.h"

#include <stdio.h>
#include <string.h>

static int races, errors;

static inline void on_log(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (strncmp(text, "race:", 5) == 0) {
        races++;
        fputs(text, stderr);
    }
    if (level == GGML_LOG_LEVEL_ERROR) errors++;
}

#endif

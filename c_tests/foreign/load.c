/* Loads modules and prints the result of each, for run.sh: load MODULE ... , load -a FOLDER. A line each on stdout:
 *   loaded NAME (DEVICES devices)     or     refused, LINES lines: TEXT
 * TEXT is the log of the library. With -a, prints the families that were loaded, then a line for the log from warning
 * level on. */
#include "ggml-backend.h"
#include "ggml.h"

#include <stdio.h>
#include <string.h>

static char   said[4096];
static size_t lines;

static void listen(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level != GGML_LOG_LEVEL_WARN && level != GGML_LOG_LEVEL_ERROR) {
        return;
    }
    for (const char * c = text; *c; c++) {
        lines += *c == '\n';
        size_t n = strlen(said);
        if (n + 2 < sizeof(said)) {
            said[n] = *c == '\n' ? '|' : *c;
        }
    }
}

static void forget(void) {
    memset(said, 0, sizeof(said));
    lines = 0;
}

int main(int argc, char ** argv) {
    ggml_log_set(listen, NULL);
    if (argc == 3 && strcmp(argv[1], "-a") == 0) {
        ggml_backend_load_all_from_path(argv[2]);
        for (size_t i = 0; i < ggml_backend_reg_count(); i++) {
            printf("loaded %s\n", ggml_backend_reg_name(ggml_backend_reg_get(i)));
        }
        printf("%zu lines: %s\n", lines, said);
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        forget();
        ggml_backend_reg_t reg = ggml_backend_load(argv[i]);
        if (reg) {
            printf("loaded %s (%zu devices)\n", ggml_backend_reg_name(reg), ggml_backend_reg_dev_count(reg));
        } else {
            printf("refused, %zu lines: %s\n", lines, said);
        }
    }
    return 0;
}

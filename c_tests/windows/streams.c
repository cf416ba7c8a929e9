/* C streams between this library and a program whose C library is another one: the Universal C Runtime, that of Visual
 * C++, if it is compiled with -DUCRT (run.sh). Such a program has no startup code of MinGW's. */
#include "ggml.h"
#include "gguf.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

static void check(int good, const char * what) {
    printf("%s %s\n", good ? "PASS" : "FAIL", what);
    failed += !good;
}

static void aborted(int number) {
    (void) number;
    check(1, "the program's handler of SIGABRT is called");
    printf("%d passed, %d failed\n", 6 - failed, failed);
    fflush(stdout);
    exit(failed != 0);
}

static void quiet(const char * text) {
    (void) text;
}

static int run(void) {
    const char * path = "stream-\xc3\xa4\xe4\xba\xba.gguf";
    errno = 0;
    check(ggml_fopen("no such folder/file", "rb") == NULL && errno == ENOENT, "errno is the program's");

    FILE * file = ggml_fopen(path, "w+b");
    check(file != NULL && fwrite("before", 1, 6, file) == 6, "a stream from ggml_fopen is the program's");
    if (file == NULL) {
        return 1;
    }
    struct gguf_context * gguf = gguf_init_empty();
    gguf_set_val_u32(gguf, "answer", 42);
    check(gguf_write_to_file_ptr(gguf, file, true), "a file is written into a stream of the program");
    gguf_free(gguf);
    fclose(file);

    file = ggml_fopen(path, "rb");
    char begin[6] = { 0 };
    check(file != NULL && fread(begin, 1, 6, file) == 6 && memcmp(begin, "before", 6) == 0, "the program reads it");
    gguf = gguf_init_from_file_ptr(file, (struct gguf_init_params) { true, NULL });
    check(gguf != NULL && gguf_get_val_u32(gguf, gguf_find_key(gguf, "answer")) == 42, "and the library, from there");
    gguf_free(gguf);
    fclose(file);

    signal(SIGABRT, aborted);
    ggml_set_abort_callback(quiet);
    ggml_abort("streams.c", 1, "the end");
    return 1;
}

#ifdef UCRT
/* The entry point. */
void begin(void) {
    exit(run());
}
#else
int main(void) {
    return run();
}
#endif

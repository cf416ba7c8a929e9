/* Reads damaged copies of a small GGUF file, each in a process of its own, and counts how they end: mutate COPIES. The
 * damage is the same in every run: up to four bytes change, or eight bytes become a huge number. Prints "refused N,
 * read N, crashed N, stuck N". The exit status is 1 if any crashed or got stuck. Works with either library, because it
 * uses public functions only. On Windows all are read in one process, which a crash ends. */
#define _POSIX_C_SOURCE 200809L

#include "ggml.h"
#include "gguf.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

static uint64_t state = 1;

static uint32_t next(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (state >> 33);
}

static void quiet(enum ggml_log_level level, const char * text, void * user) {
    (void) level;
    (void) text;
    (void) user;
}

/* A file that is gone when it is closed. */
static FILE * scratch(void) {
#ifdef _WIN32
    return fopen("mutate.gguf", "w+bTD");
#else
    return tmpfile();
#endif
}

/* The work of the process of one copy. */
static int read_it(const unsigned char * data, size_t size) {
#ifndef _WIN32
    const struct rlimit memory = { 1u << 30, 1u << 30 };
    setrlimit(RLIMIT_AS, &memory);
    alarm(10);
    if (freopen("/dev/null", "w", stderr) == NULL) {
        return 2;
    }
#endif
    ggml_log_set(quiet, NULL);
    FILE * f = scratch();
    if (f == NULL || fwrite(data, 1, size, f) != size) {
        return 2;
    }
    rewind(f);
    struct ggml_context *   weights = NULL;
    struct gguf_init_params params  = { .no_alloc = false, .ctx = &weights };
    struct gguf_context *   gguf    = gguf_init_from_file_ptr(f, params);
    fclose(f);
    if (gguf == NULL) {
        return 1;
    }
    for (int64_t i = 0; i < gguf_get_n_tensors(gguf); i++) {
        struct ggml_tensor * t = ggml_get_tensor(weights, gguf_get_tensor_name(gguf, i));
        if (t != NULL && ggml_nbytes(t) > SIZE_MAX / 2) {
            return 3;
        }
    }
    gguf_free(gguf);
    ggml_free(weights);
    return 0;
}

/* A small file with values, texts, arrays and tensors. */
static size_t make(unsigned char * data, size_t room) {
    struct ggml_context * c = ggml_init((struct ggml_init_params) { .mem_size = 1u << 16, .mem_buffer = NULL, .no_alloc = false });
    struct gguf_context * g = gguf_init_empty();
    static const char *  words[] = { "one", "two", "three" };
    static const int32_t ints[]  = { 1, 2, 3, 4, 5 };
    gguf_set_val_str(g, "general.architecture", "test");
    gguf_set_val_u32(g, "general.alignment", 32);
    gguf_set_val_f32(g, "a.number", 1.5f);
    gguf_set_arr_str(g, "words", words, 3);
    gguf_set_arr_data(g, "ints", GGUF_TYPE_INT32, ints, 5);
    static const enum ggml_type types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q6_K };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct ggml_tensor * t = ggml_new_tensor_2d(c, types[i], 256, 2);
        memset(t->data, (int) i + 1, ggml_nbytes(t));
        gguf_add_tensor(g, ggml_format_name(t, "tensor %zu", i));
    }
    FILE * f = scratch();
    size_t size = 0;
    if (f != NULL && gguf_write_to_file_ptr(g, f, false)) {
        rewind(f);
        size = fread(data, 1, room, f);
    }
    if (f != NULL) {
        fclose(f);
    }
    gguf_free(g);
    ggml_free(c);
    return size;
}

int main(int argc, char ** argv) {
    static unsigned char data[1 << 14];
    const int            copies = argc > 1 ? atoi(argv[1]) : 1000;
    const size_t         size   = make(data, sizeof data), head = 700; /* the tensors' data follows */
    if (size < head) {
        fprintf(stderr, "mutate: the file cannot be made\n");
        return 2;
    }
#ifndef _WIN32
    setenv("GGML_NO_BACKTRACE", "1", 1);
#endif
    int counts[4] = { 0, 0, 0, 0 }; /* refused, read, crashed, stuck */
    for (int i = 0; i < copies; i++) {
        static unsigned char copy[sizeof data];
        memcpy(copy, data, size);
        if (next() % 2) {
            for (uint32_t k = 1 + next() % 4; k > 0; k--) {
                copy[8 + next() % (head - 8)] = (unsigned char) next();
            }
        } else {
            const uint64_t huge = UINT64_MAX >> next() % 40;
            memcpy(copy + 8 + next() % (head - 16), &huge, sizeof huge);
        }
#ifdef _WIN32
        counts[read_it(copy, size) == 0]++;
#else
        const pid_t child = fork();
        if (child == 0) {
            _exit(read_it(copy, size));
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) < 0) {
            perror("mutate");
            return 2;
        }
        if (WIFEXITED(status)) {
            counts[WEXITSTATUS(status) == 0 ? 1 : 0]++;
        } else {
            counts[WTERMSIG(status) == SIGALRM ? 3 : 2]++;
        }
#endif
    }
    printf("refused %d, read %d, crashed %d, stuck %d\n", counts[0], counts[1], counts[2], counts[3]);
    return counts[2] + counts[3] > 0;
}

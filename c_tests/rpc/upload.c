/* How fast weights get to a server: upload ENDPOINT MIB [ROUNDS]
 *
 * Sends tensors of 32 MiB, MIB in all, through a new backend in each round, and as many bytes over a plain connection
 * of this process to itself. Prints the best rate of each, in turns, as JSON. Programs see a server on another core, as
 * the plain receiver is. */
#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-rpc.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PIECE ((size_t) 32 << 20)
#define STEP ((size_t) 1 << 20)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

struct sink {
    int    fd;
    char * bytes;
    size_t size;
};

static void * receives(void * arg) {
    struct sink * s = arg;
    for (size_t done = 0; done < s->size;) {
        const ssize_t n = recv(s->fd, s->bytes + done, s->size - done < STEP ? s->size - done : STEP, 0);
        if (n <= 0) {
            exit(1);
        }
        done += (size_t) n;
    }
    (void) !send(s->fd, "", 1, MSG_NOSIGNAL);
    return NULL;
}

/* Seconds for bytes over a plain connection, until the receiver says that it has all of them. */
static double plain(const char * data, char * to, size_t size) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof(at);
    const int listener = socket(AF_INET, SOCK_STREAM, 0), near = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;
    char done;
    if (bind(listener, (struct sockaddr *) &at, sizeof(at)) != 0 || listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *) &at, &length) != 0 ||
        connect(near, (struct sockaddr *) &at, sizeof(at)) != 0) {
        exit(1);
    }
    struct sink sink = { accept(listener, NULL, NULL), to, size };
    pthread_create(&thread, NULL, receives, &sink);
    const double start = now();
    for (size_t at_byte = 0; at_byte < size; at_byte += PIECE) {
        for (size_t sent = 0; sent < PIECE;) {
            const ssize_t n = send(near, data + sent, PIECE - sent, MSG_NOSIGNAL);
            if (n <= 0) {
                exit(1);
            }
            sent += (size_t) n;
        }
    }
    if (recv(near, &done, 1, 0) != 1) {
        exit(1);
    }
    const double seconds = now() - start;
    pthread_join(thread, NULL);
    close(near);
    close(sink.fd);
    close(listener);
    return seconds;
}

int main(int argc, char ** argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: upload ENDPOINT MIB [ROUNDS]\n");
        return 2;
    }
    const int n = atoi(argv[2]) / 32, rounds = argc > 3 ? atoi(argv[3]) : 3;
    const size_t size = (size_t) n * PIECE;
    char * data = malloc(PIECE), * to = malloc(size);
    if (data == NULL || to == NULL || n < 1) {
        return 1;
    }
    for (size_t i = 0; i < PIECE; i++) {
        data[i] = (char) (i * 2654435761u >> 13);
    }
    memset(to, 1, size);
    double best = 0, best_plain = 0;
    for (int round = 0; round < rounds; round++) {
        const double seconds = plain(data, to, size);
        best_plain = (double) size / seconds > best_plain ? (double) size / seconds : best_plain;
        ggml_backend_t backend = ggml_backend_rpc_init(argv[1], 0);
        if (backend == NULL) {
            return 1;
        }
        struct ggml_init_params params = { ggml_tensor_overhead() * (size_t) (n + 1), NULL, true };
        struct ggml_context * ctx = ggml_init(params);
        struct ggml_tensor * first = NULL;
        for (int i = 0; i < n; i++) {
            struct ggml_tensor * t = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, (int64_t) (PIECE / 4));
            first = first == NULL ? t : first;
        }
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
        if (buffer == NULL) {
            return 1;
        }
        ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        char back[4];
        ggml_backend_tensor_get(first, back, 0, sizeof(back));
        const double start = now();
        for (struct ggml_tensor * t = first; t != NULL; t = ggml_get_next_tensor(ctx, t)) {
            ggml_backend_tensor_set(t, data, 0, PIECE);
        }
        ggml_backend_tensor_get(first, back, 0, sizeof(back));
        const double rate = (double) size / (now() - start);
        best = rate > best ? rate : best;
        if (memcmp(back, data, sizeof(back)) != 0) {
            return 1;
        }
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
        ggml_backend_free(backend);
    }
    printf("{\"plain\": %.3f, \"upload\": %.3f}\n", best_plain * 1e-9, best * 1e-9);
    return 0;
}

/* A server and its clients in one process, for the sanitizers (scripts/sanitizers.py): hosts on two connections compute
 * the results of the CPU, while other connections send noise or end in the middle, and one server ends. */
#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-rpc.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define N 64
#define ROUNDS 60

static int port;
static atomic_int passed, failed;

static void check(int good, const char * what) {
    if (good) {
        atomic_fetch_add(&passed, 1);
    } else {
        atomic_fetch_add(&failed, 1);
        printf("FAIL %s\n", what);
    }
}

static int connected(void) {
    const struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t) port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *) &to, sizeof(to)) == 0) {
        return fd;
    }
    close(fd);
    return -1;
}

static int free_port(void) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(at);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *) &at, sizeof(at)) != 0 || getsockname(fd, (struct sockaddr *) &at, &size) != 0) {
        exit(2);
    }
    close(fd);
    return ntohs(at.sin_port);
}

static void * serves(void * arg) {
    (void) arg;
    char endpoint[64];
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%d", port);
    ggml_backend_rpc_start_server(endpoint, NULL, 2, 1, &cpu);
    printf("FAIL the server has ended\n");
    exit(1);
}

/* soft_max(w x + x), computed on a backend; `rounds` times with other inputs, the last result into out. */
static int compute(ggml_backend_t backend, int rounds, float * out) {
    struct ggml_init_params params = { ggml_tensor_overhead() * 16 + ggml_graph_overhead(), NULL, true };
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_tensor * w = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, N, N);
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, N, 8);
    struct ggml_tensor * y = ggml_soft_max(ctx, ggml_add(ctx, ggml_mul_mat(ctx, w, x), x));
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    int good = buffer != NULL;
    float data[N * N];
    for (int i = 0; i < N * N; i++) {
        data[i] = (float) (i * 7 % 23) / 23.0f - 0.5f;
    }
    if (good) {
        ggml_backend_tensor_set(w, data, 0, sizeof(data));
        for (int round = 0; round < rounds && good; round++) {
            data[0] = (float) round;
            ggml_backend_tensor_set_async(backend, x, data, 0, ggml_nbytes(x));
            good = ggml_backend_graph_compute_async(backend, graph) == GGML_STATUS_SUCCESS;
            ggml_backend_tensor_get_async(backend, y, out, 0, ggml_nbytes(y));
            ggml_backend_synchronize(backend);
        }
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return good;
}

static float expected[N * 8];

static void * hosts(void * arg) {
    char endpoint[64];
    snprintf(endpoint, sizeof(endpoint), "%s:%d", (const char *) arg, port);
    for (int i = 0; i < 4; i++) {
        float out[N * 8];
        ggml_backend_t backend = NULL;
        /* The other connections take places, and a server without a free place refuses hosts. */
        for (int k = 0; k < 200 && backend == NULL; k++) {
            backend = ggml_backend_rpc_init(endpoint, 0);
            if (backend == NULL) {
                usleep(50000);
            }
        }
        check(backend != NULL, "the server can be reached");
        if (backend == NULL) {
            break;
        }
        check(compute(backend, ROUNDS, out), "graphs are computed");
        check(memcmp(out, expected, sizeof(out)) == 0, "the result is the CPU's");
        ggml_backend_free(backend);
    }
    return NULL;
}

static void * strangers(void * arg) {
    unsigned int seed = (unsigned int) (size_t) arg;
    for (int i = 0; i < 120; i++) {
        unsigned char noise[700];
        const int fd = connected();
        if (fd < 0) {
            continue;
        }
        for (size_t k = 0; k < sizeof(noise); k++) {
            noise[k] = (unsigned char) rand_r(&seed);
        }
        if (i % 4 != 0) { /* a greeting, and a request of the right size */
            static const unsigned short SIZES[] = { 12, 4, 4, 8, 8, 9, 305, 312, 312, 592, 500, 4, 296, 3260, 24, 0, 12, 313, 328, 328, 80, 300, 4 };
            memset(noise, 0, 33);
            noise[0]  = 14;
            noise[1]  = 24;
            noise[33] = (unsigned char) (i % 23);
            memset(noise + 34, 0, 8);
            noise[34] = (unsigned char) SIZES[i % 23];
            noise[35] = (unsigned char) (SIZES[i % 23] >> 8);
        }
        (void) !send(fd, noise, i % 5 == 0 ? 40 : sizeof(noise), MSG_NOSIGNAL);
        if (i % 3 == 0) {
            (void) !recv(fd, noise, sizeof(noise), MSG_DONTWAIT);
        }
        close(fd);
    }
    return NULL;
}

/* A server that sends its greeting and closes the connection. */
static void * leaves(void * arg) {
    const int listener = *(int *) arg;
    const unsigned char greeting[36] = { 28, 0, 0, 0, 0, 0, 0, 0, 8, 0, 1 };
    for (int i = 0; i < 2; i++) {
        unsigned char hello[33];
        const int fd = accept(listener, NULL, NULL);
        (void) !recv(fd, hello, sizeof(hello), MSG_WAITALL);
        (void) !send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

static void a_server_that_goes(void) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;
    char endpoint[64];
    size_t free_bytes = 1, total = 1;
    if (bind(listener, (struct sockaddr *) &at, sizeof(at)) != 0 || listen(listener, 4) != 0 || getsockname(listener, (struct sockaddr *) &at, &size) != 0) {
        exit(2);
    }
    pthread_create(&thread, NULL, leaves, &listener);
    snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%d", ntohs(at.sin_port));
    check(ggml_backend_rpc_add_server(endpoint) == NULL, "a server that goes has no devices");
    ggml_backend_rpc_get_device_memory(endpoint, 0, &free_bytes, &total);
    check(free_bytes == 0 && total == 0, "a server that goes has no memory");
    pthread_join(thread, NULL);
    close(listener);
}

int main(void) {
    static const char * const NAMES[3] = { "127.0.0.1", "127.0.0.1", "localhost" };
    pthread_t server, clients[3], others[2];
    ggml_backend_t cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, 2);
    check(compute(cpu, ROUNDS, expected), "the CPU computes");
    ggml_backend_free(cpu);
    port = free_port();
    pthread_create(&server, NULL, serves, NULL);
    pthread_detach(server);
    for (int i = 0, fd = -1; i < 200 && fd < 0; i++) {
        usleep(20000);
        fd = connected();
        close(fd);
    }
    for (int i = 0; i < 3; i++) {
        pthread_create(&clients[i], NULL, hosts, (void *) (size_t) NAMES[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        pthread_create(&others[i], NULL, strangers, (void *) (i + 1));
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(clients[i], NULL);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(others[i], NULL);
    }
    a_server_that_goes();
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

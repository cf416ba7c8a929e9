/* Forwards between RPC clients and a server, with a delay, and counts: wire SERVER_PORT MILLISECONDS
 *
 * Prints the port that it listens at. Each byte arrives MILLISECONDS after it was sent, in both directions, so that a
 * round trip takes twice as long, and the bandwidth stays that of the loopback. When a connection ends, prints one line
 * about it, as JSON: bytes "up" (to the server) and "down", "turns" (how often the server has sent after the client:
 * round trips that the client waited for), "loaded" (bytes of tensors that were set before the first graph), "kept"
 * (those of them that the server may keep), and the number of each command. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (256 << 10)
#define COMMANDS 23
#define SET_TENSOR 6
#define GRAPH_COMPUTE 10
#define DESCRIPTION 296

static const char * const NAMES[COMMANDS] = {
    "ALLOC_BUFFER", "GET_ALIGNMENT", "GET_MAX_SIZE", "BUFFER_GET_BASE", "FREE_BUFFER", "BUFFER_CLEAR", "SET_TENSOR", "SET_TENSOR_HASH",
    "GET_TENSOR", "COPY_TENSOR", "GRAPH_COMPUTE", "GET_DEVICE_MEMORY", "INIT_TENSOR", "GET_ALLOC_SIZE", "HELLO", "DEVICE_COUNT",
    "GRAPH_RECOMPUTE", "MEMSET_TENSOR", "SET_TENSOR_2D", "GET_TENSOR_2D", "COMM_INIT", "COMM_ALLREDUCE", "COMM_FREE",
};

struct piece {
    struct piece * next;
    uint64_t       due; /* nanoseconds */
    size_t         size;
    char           bytes[];
};

struct connection;

/* One direction. */
struct way {
    struct connection * of;
    int                 from, to;
    int                 up;
    pthread_mutex_t     lock;
    pthread_cond_t      changed;
    struct piece *      first;
    struct piece **     last;
    size_t              held;
    int                 ended;
    pthread_t           reader, writer;
};

struct connection {
    struct way      ways[2];
    pthread_mutex_t lock;
    int             client_spoke;
    uint64_t        turns, bytes[2], commands[COMMANDS];
    /* The current request: bytes of its head, and how many bytes are to come. */
    unsigned char   head[9];
    size_t          n_head;
    uint64_t        rest, size;
    uint64_t        loaded, kept;
};

static uint64_t delay;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static void count_requests(struct connection * c, const char * bytes, size_t n) {
    while (n > 0) {
        if (c->rest > 0) {
            const size_t some = c->rest < n ? (size_t) c->rest : n;
            const uint64_t at = c->size - c->rest;
            /* A request that sets a tensor has its description, a byte that says whether to keep the data, the offset,
             * and the data. */
            if (c->head[0] == SET_TENSOR && at <= DESCRIPTION && DESCRIPTION < at + some && c->commands[GRAPH_COMPUTE] == 0) {
                c->loaded += c->size - DESCRIPTION - 9;
                c->kept += bytes[DESCRIPTION - at] ? c->size - DESCRIPTION - 9 : 0;
            }
            c->rest -= some;
            bytes += some;
            n -= some;
            continue;
        }
        c->head[c->n_head++] = (unsigned char) *bytes++;
        n--;
        if (c->n_head == sizeof(c->head)) {
            memcpy(&c->rest, c->head + 1, sizeof(c->rest));
            c->size = c->rest;
            if (c->head[0] < COMMANDS) {
                c->commands[c->head[0]]++;
            }
            c->n_head = 0;
        }
    }
}

static void * reads(void * arg) {
    struct way * w = arg;
    for (;;) {
        struct piece * p = malloc(sizeof(*p) + CHUNK);
        const ssize_t n = p != NULL ? read(w->from, p->bytes, CHUNK) : -1;
        if (n > 0) {
            p->due  = now() + delay;
            p->size = (size_t) n;
            p->next = NULL;
            pthread_mutex_lock(&w->of->lock);
            w->of->bytes[w->up] += (uint64_t) n;
            if (w->up) {
                count_requests(w->of, p->bytes, p->size);
            } else if (w->of->client_spoke) {
                w->of->turns++;
            }
            w->of->client_spoke = w->up;
            pthread_mutex_unlock(&w->of->lock);
        }
        pthread_mutex_lock(&w->lock);
        if (n <= 0) {
            free(p);
            w->ended = 1;
        } else {
            *w->last = p;
            w->last  = &p->next;
            w->held += p->size;
        }
        pthread_cond_broadcast(&w->changed);
        /* As much as a link of 1 GB/s has on its way in 60 ms. */
        while (w->held > (64u << 20)) {
            pthread_cond_wait(&w->changed, &w->lock);
        }
        pthread_mutex_unlock(&w->lock);
        if (n <= 0) {
            return NULL;
        }
    }
}

static void * writes(void * arg) {
    struct way * w = arg;
    int broken = 0;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        while (w->first == NULL && !w->ended) {
            pthread_cond_wait(&w->changed, &w->lock);
        }
        struct piece * p = w->first;
        if (p != NULL) {
            w->first = p->next;
            if (w->first == NULL) {
                w->last = &w->first;
            }
            w->held -= p->size;
            pthread_cond_broadcast(&w->changed);
        }
        pthread_mutex_unlock(&w->lock);
        if (p == NULL) {
            break;
        }
        const struct timespec due = { (time_t) (p->due / 1000000000u), (long) (p->due % 1000000000u) };
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        for (size_t done = 0; done < p->size && !broken;) {
            const ssize_t n = send(w->to, p->bytes + done, p->size - done, MSG_NOSIGNAL);
            if (n <= 0) {
                broken = 1;
                shutdown(w->from, SHUT_RD);
            } else {
                done += (size_t) n;
            }
        }
        free(p);
    }
    shutdown(w->to, SHUT_WR);
    return NULL;
}

static void * carries(void * arg) {
    struct connection * c = arg;
    for (int i = 0; i < 2; i++) {
        pthread_create(&c->ways[i].reader, NULL, reads, &c->ways[i]);
        pthread_create(&c->ways[i].writer, NULL, writes, &c->ways[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(c->ways[i].reader, NULL);
        pthread_join(c->ways[i].writer, NULL);
    }
    close(c->ways[0].from);
    close(c->ways[1].from);
    flockfile(stdout);
    printf("{\"up\": %llu, \"down\": %llu, \"turns\": %llu", (unsigned long long) c->bytes[1], (unsigned long long) c->bytes[0], (unsigned long long) c->turns);
    printf(", \"loaded\": %llu, \"kept\": %llu", (unsigned long long) c->loaded, (unsigned long long) c->kept);
    for (int i = 0; i < COMMANDS; i++) {
        if (c->commands[i] > 0) {
            printf(", \"%s\": %llu", NAMES[i], (unsigned long long) c->commands[i]);
        }
    }
    printf("}\n");
    fflush(stdout);
    funlockfile(stdout);
    free(c);
    return NULL;
}

static int prompt(int fd) {
    const int one = 1;
    return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: wire SERVER_PORT MILLISECONDS\n");
        return 2;
    }
    delay = (uint64_t) (atof(argv[2]) * 1e6);
    struct sockaddr_in near = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_in far  = near;
    far.sin_port            = htons((uint16_t) atoi(argv[1]));
    socklen_t size          = sizeof(near);
    const int listener      = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *) &near, sizeof(near)) != 0 || listen(listener, 16) != 0 ||
        getsockname(listener, (struct sockaddr *) &near, &size) != 0) {
        perror("wire");
        return 1;
    }
    printf("%d\n", ntohs(near.sin_port));
    fflush(stdout);
    for (;;) {
        const int client = accept(listener, NULL, NULL);
        const int server = socket(AF_INET, SOCK_STREAM, 0);
        struct connection * c = calloc(1, sizeof(*c));
        pthread_t thread;
        if (client < 0 || server < 0 || c == NULL || connect(server, (struct sockaddr *) &far, sizeof(far)) != 0) {
            close(client);
            close(server);
            free(c);
            continue;
        }
        prompt(client);
        prompt(server);
        pthread_mutex_init(&c->lock, NULL);
        for (int i = 0; i < 2; i++) {
            struct way * w = &c->ways[i];
            w->of   = c;
            w->up   = i;
            w->from = i ? client : server;
            w->to   = i ? server : client;
            w->last = &w->first;
            pthread_mutex_init(&w->lock, NULL);
            pthread_cond_init(&w->changed, NULL);
        }
        if (pthread_create(&thread, NULL, carries, c) != 0) {
            return 1;
        }
        pthread_detach(thread);
    }
}

/* The memory of a graph. Backend modules read it through inline code of their own, so its layout is part of the
 * interface. The public headers do not declare it. */
#ifndef C_TESTS_GRAPH_MEMORY_H
#define C_TESTS_GRAPH_MEMORY_H

#include "ggml.h"

struct hash_set_memory {
    size_t                size;
    uint32_t *            used; /* one bit a slot */
    struct ggml_tensor ** keys;
};

struct graph_memory {
    int                    size, n_nodes, n_leafs;
    struct ggml_tensor **  nodes, **grads, **grad_accs, **leafs;
    int32_t *              use_counts;
    struct hash_set_memory visited;
    int                    order; /* an enum in C */
    uint64_t               uid;
};

/* The slot of a tensor by linear probing from its address / 16, or -1 if the set does not contain it. */
static inline long graph_slot(const struct graph_memory * g, const struct ggml_tensor * t) {
    const size_t first = ((size_t) (uintptr_t) t >> 4) % g->visited.size;
    for (size_t i = first;;) {
        if ((g->visited.used[i / 32] >> (i % 32) & 1) == 0) {
            return -1;
        }
        if (g->visited.keys[i] == t) {
            return (long) i;
        }
        i = (i + 1) % g->visited.size;
        if (i == first) {
            return -1;
        }
    }
}

#endif

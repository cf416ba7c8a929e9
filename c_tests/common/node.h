/* Nodes of a graph as simulated devices see them. */
#ifndef C_TESTS_NODE_H
#define C_TESTS_NODE_H

#include "ggml.h"

#include <stdbool.h>
#include <string.h>

/* Nothing is computed for it. */
static inline bool is_view(const struct ggml_tensor * t) {
    return t->op == GGML_OP_NONE || t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
}

/* The tensor as it is now, with its bytes at another address, which belongs to no buffer. */
static inline struct ggml_tensor * shallow(struct ggml_context * ctx, const struct ggml_tensor * t, void * data) {
    struct ggml_tensor * copy = ggml_new_tensor(ctx, t->type, GGML_MAX_DIMS, t->ne);
    memcpy(copy, t, sizeof(*t));
    copy->data = data;
    copy->buffer = NULL;
    copy->view_src = NULL;
    copy->extra = NULL;
    return copy;
}

#endif

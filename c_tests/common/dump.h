/* Prints tensors and graphs as text, without addresses, so that two libraries can be compared line by line. */
#ifndef C_TESTS_DUMP_H
#define C_TESTS_DUMP_H

#include "ggml.h"

#include <stdio.h>
#include <string.h>

/* The number of `t` among the tensors of `ctx`, in the order of their making; -1 if it is not one of them. */
static inline int dump_index(const struct ggml_context * ctx, const struct ggml_tensor * t) {
    int i = 0;
    for (struct ggml_tensor * p = ggml_get_first_tensor(ctx); p != NULL; p = ggml_get_next_tensor(ctx, p), i++) {
        if (p == t) {
            return i;
        }
    }
    return -1;
}

/* Prints a line with all that a host or a backend can read in the tensor. */
static inline void dump_tensor(FILE * out, const struct ggml_context * ctx, const struct ggml_tensor * t) {
    fprintf(out, "  #%d %s %s", dump_index(ctx, t), ggml_op_desc(t), ggml_type_name(t->type));
    fprintf(out, " ne=%lld,%lld,%lld,%lld", (long long) t->ne[0], (long long) t->ne[1], (long long) t->ne[2], (long long) t->ne[3]);
    fprintf(out, " nb=%zu,%zu,%zu,%zu", t->nb[0], t->nb[1], t->nb[2], t->nb[3]);
    int last = GGML_MAX_OP_PARAMS / 4;
    while (last > 0 && t->op_params[last - 1] == 0) {
        last--;
    }
    const bool custom = t->op == GGML_OP_MAP_CUSTOM1 || t->op == GGML_OP_MAP_CUSTOM2 || t->op == GGML_OP_MAP_CUSTOM3 || t->op == GGML_OP_CUSTOM;
    if (custom) { /* {function, tasks, user data}: addresses differ from run to run */
        fprintf(out, " params=%s,%d,%s", t->op_params[0] != 0 ? "function" : "-", t->op_params[2], t->op_params[4] != 0 ? "data" : "-");
    }
    for (int i = 0; i < last && !custom; i++) {
        fprintf(out, "%s%x", i == 0 ? " params=" : ",", (unsigned) t->op_params[i]);
    }
    if (t->flags != 0) {
        fprintf(out, " flags=%x", (unsigned) t->flags);
    }
    last = GGML_MAX_SRC;
    while (last > 0 && t->src[last - 1] == NULL) {
        last--;
    }
    for (int i = 0; i < last; i++) {
        if (t->src[i] == NULL) {
            fprintf(out, "%s-", i == 0 ? " src=" : ",");
        } else {
            fprintf(out, "%s#%d", i == 0 ? " src=" : ",", dump_index(ctx, t->src[i]));
        }
    }
    if (t->view_src != NULL) {
        fprintf(out, " view=#%d+%zu", dump_index(ctx, t->view_src), t->view_offs);
    }
    if (t->data != NULL) {
        const char * base = ggml_get_mem_buffer(ctx);
        const size_t offs = (size_t) ((const char *) t->data - base);
        if (offs < ggml_get_mem_size(ctx)) {
            fprintf(out, " data=@%zu", offs);
        } else {
            fprintf(out, " data=elsewhere");
        }
    }
    if (t->extra != NULL || t->buffer != NULL) {
        fprintf(out, "%s%s", t->extra != NULL ? " extra" : "", t->buffer != NULL ? " buffer" : "");
    }
    fprintf(out, " '%s'\n", t->name);
}

static inline void dump_context(FILE * out, const struct ggml_context * ctx) {
    for (struct ggml_tensor * p = ggml_get_first_tensor(ctx); p != NULL; p = ggml_get_next_tensor(ctx, p)) {
        dump_tensor(out, ctx, p);
    }
}

#endif

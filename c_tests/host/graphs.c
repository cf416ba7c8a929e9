/* Builds graphs in every way the header offers and prints them: order of nodes and leafs, uses, flags, gradients, the
 * dot file, the printed form. Tensors are named by their place in the graph, never by address. The text must be the
 * same for every library with the version of ggml 0.28.0. */
#include "../common/dump.h"
#include "../common/graph_memory.h"

#include "ggml-cpu.h"

#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

static struct ggml_context * c;

static struct graph_memory * mem(struct ggml_cgraph * graph) {
    return (struct graph_memory *) (void *) graph;
}

static void name_of(const struct graph_memory * g, const struct ggml_tensor * t, char * out, size_t room) {
    snprintf(out, room, t == NULL ? "-" : "?");
    for (int i = 0; t != NULL && i < g->n_nodes; i++) {
        if (g->nodes[i] == t) {
            snprintf(out, room, "n%d", i);
        }
    }
    for (int i = 0; t != NULL && i < g->n_leafs; i++) {
        if (g->leafs[i] == t) {
            snprintf(out, room, "l%d", i);
        }
    }
}

static void show_one(const struct graph_memory * g, const struct ggml_tensor * t) {
    char name[32];
    name_of(g, t, name, sizeof name);
    printf("  %s %s %s %lld,%lld,%lld,%lld nb %zu,%zu,%zu,%zu", name, ggml_op_desc(t), ggml_type_name(t->type), (long long) t->ne[0], (long long) t->ne[1],
           (long long) t->ne[2], (long long) t->ne[3], t->nb[0], t->nb[1], t->nb[2], t->nb[3]);
    int last = GGML_MAX_OP_PARAMS / 4;
    while (last > 0 && t->op_params[last - 1] == 0) {
        last--;
    }
    for (int i = 0; i < last; i++) {
        printf("%s%x", i == 0 ? " params " : ",", (unsigned) t->op_params[i]);
    }
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (t->src[i] != NULL) {
            name_of(g, t->src[i], name, sizeof name);
            printf(" src%d=%s", i, name);
        }
    }
    if (t->view_src != NULL) {
        name_of(g, t->view_src, name, sizeof name);
        printf(" view %s+%zu", name, t->view_offs);
    }
    const long slot = graph_slot(g, t);
    printf(" flags %x uses %d", (unsigned) t->flags, slot < 0 ? -1 : g->use_counts[slot]);
    if (slot >= 0 && g->grads != NULL && (g->grads[slot] != NULL || g->grad_accs[slot] != NULL)) {
        name_of(g, g->grads[slot], name, sizeof name);
        printf(" grad=%s", name);
        name_of(g, g->grad_accs[slot], name, sizeof name);
        printf(" acc=%s", name);
    }
    printf(" '%s'\n", t->name);
}

static void show(const char * label, struct ggml_cgraph * graph) {
    const struct graph_memory * g = mem(graph);
    printf("%s: size %d, %d nodes, %d leafs, order %d, set of %zu, grads %s\n", label, g->size, g->n_nodes, g->n_leafs, g->order, g->visited.size, g->grads != NULL ? "yes" : "no");
    if (ggml_graph_size(graph) != g->size || ggml_graph_n_nodes(graph) != g->n_nodes || ggml_graph_nodes(graph) != g->nodes ||
        (g->n_nodes > 0 && (ggml_graph_node(graph, 0) != g->nodes[0] || ggml_graph_node(graph, -1) != g->nodes[g->n_nodes - 1]))) {
        printf("  the getters and the memory do not agree\n");
    }
    for (int i = 0; i < g->n_leafs; i++) {
        show_one(g, g->leafs[i]);
    }
    for (int i = 0; i < g->n_nodes; i++) {
        show_one(g, g->nodes[i]);
    }
}

static struct ggml_tensor * v(int64_t n) {
    return ggml_new_tensor_1d(c, GGML_TYPE_F32, n);
}

static struct ggml_tensor * m(int64_t n0, int64_t n1) {
    return ggml_new_tensor_2d(c, GGML_TYPE_F32, n0, n1);
}

static void forward(void) {
    ggml_reset(c);
    struct ggml_cgraph * graph = ggml_new_graph(c);
    show("empty", graph);
    struct ggml_tensor * x = ggml_set_name(v(8), "x");
    struct ggml_tensor * y = v(8);
    struct ggml_tensor * s = ggml_add(c, x, y);
    struct ggml_tensor * p = ggml_mul(c, s, s);
    struct ggml_tensor * q = ggml_sub(c, ggml_sqr(c, p), ggml_scale(c, x, 2.0f));
    ggml_build_forward_expand(graph, p);
    show("a chain", graph);
    ggml_build_forward_expand(graph, q);
    ggml_build_forward_expand(graph, q);
    show("a diamond, expanded twice", graph);
    ggml_build_forward_expand(graph, x);
    show("an input", graph);
    ggml_set_output(q);
    printf("get_tensor: %d %d\n", ggml_graph_get_tensor(graph, "x") == x, ggml_graph_get_tensor(graph, "nobody") == NULL);
    struct ggml_cgraph * copy = ggml_graph_dup(c, graph, false);
    show("dup", copy);
    struct ggml_cgraph * grads = ggml_graph_dup(c, graph, true);
    show("dup with gradients", grads);
    ggml_graph_clear(graph);
    show("cleared", graph);
    ggml_graph_cpy(copy, graph);
    show("copied back", graph);
    ggml_graph_add_node(graph, s);
    printf("add_node: %d nodes\n", ggml_graph_n_nodes(graph));
    struct ggml_cgraph * small = ggml_new_graph_custom(c, 5, true);
    ggml_build_forward_expand(small, s);
    show("small", small);
    static const size_t sizes[] = { 1, 2, 3, 5, 10, 100, 257, 1000, 2048, 4096, 10007, 65536 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        printf("overhead of %zu: %zu, with gradients %zu\n", sizes[i], ggml_graph_overhead_custom(sizes[i], false), ggml_graph_overhead_custom(sizes[i], true));
        const size_t before = ggml_used_mem(c);
        struct ggml_cgraph * sized = ggml_new_graph_custom(c, sizes[i], i % 2 == 1);
        printf("  in the context: %zu, set of %zu\n", ggml_used_mem(c) - before, mem(sized)->visited.size);
    }
    printf("overhead: %zu, of a tensor %zu\n", ggml_graph_overhead(), ggml_tensor_overhead());
}

static void views_and_orders(void) {
    ggml_reset(c);
    struct ggml_cgraph * graph = ggml_new_graph_custom(c, 64, false);
    struct ggml_tensor * x = m(8, 4);
    struct ggml_tensor * w = ggml_new_tensor_2d(c, GGML_TYPE_F16, 8, 6);
    struct ggml_tensor * t = ggml_cont(c, ggml_transpose(c, ggml_mul_mat(c, w, x)));
    struct ggml_tensor * o = ggml_cpy(c, ggml_view_1d(c, t, 4, 0), ggml_view_1d(c, x, 4, 16));
    ggml_build_forward_expand(graph, o);
    ggml_build_forward_expand(graph, ggml_add(c, ggml_view_2d(c, t, 4, 2, t->nb[1], 0), ggml_reshape_2d(c, ggml_view_1d(c, x, 8, 32), 4, 2)));
    show("views", graph);

    struct ggml_cgraph * ordered = ggml_new_graph_custom(c, 64, false);
    struct ggml_tensor * a = ggml_sqr(c, x), *b = ggml_sqrt(c, x);
    struct ggml_tensor * later = ggml_add(c, a, b);
    ggml_build_forward_order(ordered, later);
    show("ordered, nothing to compute", ordered);
    ggml_build_forward_expand(ordered, ggml_neg(c, b));
    show("a part of it computes", ordered);

    struct ggml_cgraph * choice = ggml_new_graph_custom(c, 64, false);
    struct ggml_tensor * three[3] = { ggml_sin(c, ggml_sqr(c, x)), ggml_cos(c, ggml_exp(c, x)), ggml_log(c, ggml_relu(c, x)) };
    printf("select: %d\n", ggml_build_forward_select(choice, three, 3, 1) == three[1]);
    show("select 1 of 3", choice);
    mem(choice)->order = 1;
    ggml_build_forward_expand(choice, ggml_add(c, ggml_sgn(c, x), ggml_step(c, x)));
    show("right to left", choice);
}

/* A loss over one op that has gradients; the inputs are parameters unless the op says otherwise. */
typedef struct ggml_tensor * (*build)(void);

static struct ggml_tensor * par(struct ggml_tensor * t) {
    ggml_set_param(t);
    return t;
}

static struct ggml_tensor * idx(int64_t n) {
    return ggml_new_tensor_1d(c, GGML_TYPE_I32, n);
}

#define OP(name, expression)                                \
    static struct ggml_tensor * name(void) {                \
        struct ggml_tensor * x = par(m(6, 4));              \
        struct ggml_tensor * y = par(m(6, 4));              \
        (void) x;                                           \
        (void) y;                                           \
        return expression;                                  \
    }
OP(op_dup, ggml_dup(c, x))
OP(op_add, ggml_add(c, x, y))
OP(op_add_broadcast, ggml_add(c, x, par(v(6))))
OP(op_sub, ggml_sub(c, x, y))
OP(op_mul, ggml_mul(c, x, y))
OP(op_mul_broadcast, ggml_mul(c, x, par(m(3, 1))))
OP(op_div, ggml_div(c, x, y))
OP(op_sqr, ggml_sqr(c, x))
OP(op_sqrt, ggml_sqrt(c, x))
OP(op_log, ggml_log(c, x))
OP(op_sin, ggml_sin(c, x))
OP(op_cos, ggml_cos(c, x))
OP(op_sum, ggml_sum(c, x))
OP(op_sum_rows, ggml_sum_rows(c, x))
OP(op_mean, ggml_mean(c, x))
OP(op_repeat, ggml_repeat(c, par(m(3, 2)), x))
OP(op_repeat_back, ggml_repeat_back(c, x, par(m(3, 2))))
OP(op_rms_norm, ggml_rms_norm(c, x, 1e-5f))
OP(op_mul_mat, ggml_mul_mat(c, x, y))
OP(op_mul_mat_batched, ggml_mul_mat(c, par(ggml_new_tensor_3d(c, GGML_TYPE_F32, 6, 4, 2)), par(ggml_new_tensor_3d(c, GGML_TYPE_F32, 6, 3, 4))))
OP(op_scale, ggml_scale(c, x, 0.5f))
OP(op_cpy, ggml_cpy(c, x, m(6, 4)))
OP(op_cont, ggml_cont(c, x))
OP(op_cont_transposed, ggml_cont(c, ggml_transpose(c, x)))
OP(op_reshape, ggml_reshape_2d(c, x, 3, 8))
OP(op_view, ggml_cont(c, ggml_view_2d(c, x, 3, 2, x->nb[1], x->nb[1] * 2)))
OP(op_permute, ggml_cont(c, ggml_permute(c, x, 2, 0, 3, 1)))
OP(op_transpose, ggml_mul_mat(c, ggml_cont(c, ggml_transpose(c, x)), m(4, 3)))
OP(op_get_rows, ggml_get_rows(c, x, idx(3)))
OP(op_diag_mask_inf, ggml_diag_mask_inf(c, x, 1))
OP(op_diag_mask_zero, ggml_diag_mask_zero(c, x, 1))
OP(op_soft_max, ggml_soft_max(c, x))
OP(op_soft_max_ext, ggml_soft_max_ext(c, x, ggml_new_tensor_2d(c, GGML_TYPE_F16, 6, 4), 0.25f, 0.0f))
OP(op_rope, ggml_rope(c, par(ggml_new_tensor_3d(c, GGML_TYPE_F32, 8, 2, 3)), idx(3), 8, GGML_ROPE_TYPE_NEOX))
OP(op_im2col, ggml_im2col(c, ggml_new_tensor_4d(c, GGML_TYPE_F32, 3, 3, 2, 4), par(ggml_new_tensor_4d(c, GGML_TYPE_F32, 8, 7, 2, 1)), 1, 1, 0, 0, 1, 1, true, GGML_TYPE_F32))
OP(op_conv_2d, ggml_conv_2d(c, par(ggml_new_tensor_4d(c, GGML_TYPE_F32, 3, 3, 2, 4)), par(ggml_new_tensor_4d(c, GGML_TYPE_F32, 8, 7, 2, 1)), 1, 1, 0, 0, 1, 1))
OP(op_pool_2d, ggml_pool_2d(c, par(ggml_new_tensor_4d(c, GGML_TYPE_F32, 8, 8, 2, 1)), GGML_OP_POOL_MAX, 2, 2, 2, 2, 0.0f, 0.0f))
OP(op_abs, ggml_abs(c, x))
OP(op_sgn, ggml_add(c, ggml_sgn(c, x), y))
OP(op_neg, ggml_neg(c, x))
OP(op_step, ggml_add(c, ggml_step(c, x), y))
OP(op_relu, ggml_relu(c, x))
OP(op_silu, ggml_silu(c, x))
OP(op_exp, ggml_exp(c, x))
OP(op_expm1, ggml_expm1(c, x))
OP(op_softplus, ggml_softplus(c, x))
OP(op_swiglu_split, ggml_swiglu_split(c, x, y))
OP(op_acc, ggml_acc(c, x, par(m(3, 2)), x->nb[1], x->nb[2], x->nb[3], 8))
OP(op_set, ggml_set(c, x, par(m(3, 2)), x->nb[1], x->nb[2], x->nb[3], 8))
OP(op_cross_entropy, ggml_cross_entropy_loss(c, x, m(6, 4)))
OP(op_two_paths, ggml_add(c, ggml_mul(c, x, y), ggml_sqr(c, x)))
OP(op_constant_branch, ggml_add(c, ggml_mul_mat(c, m(6, 4), y), ggml_sqr(c, m(4, 4))))
OP(op_mlp, ggml_add(c, ggml_mul_mat(c, par(m(4, 3)), ggml_relu(c, ggml_add(c, ggml_mul_mat(c, x, m(6, 5)), par(v(4))))), par(v(3))))

#define B(name) { #name, name }
static const struct { const char * name; build make; } ops[] = {
    B(op_dup), B(op_add), B(op_add_broadcast), B(op_sub), B(op_mul), B(op_mul_broadcast), B(op_div), B(op_sqr), B(op_sqrt), B(op_log), B(op_sin),
    B(op_cos), B(op_sum), B(op_sum_rows), B(op_mean), B(op_repeat), B(op_repeat_back), B(op_rms_norm), B(op_mul_mat), B(op_mul_mat_batched), B(op_scale), B(op_cpy),
    B(op_cont), B(op_cont_transposed), B(op_reshape), B(op_view), B(op_permute), B(op_transpose), B(op_get_rows), B(op_diag_mask_inf), B(op_diag_mask_zero), B(op_soft_max),
    B(op_soft_max_ext), B(op_rope), B(op_im2col), B(op_conv_2d), B(op_pool_2d), B(op_abs), B(op_sgn), B(op_neg), B(op_step), B(op_relu), B(op_silu), B(op_exp), B(op_expm1),
    B(op_softplus), B(op_swiglu_split), B(op_acc), B(op_set), B(op_cross_entropy), B(op_two_paths), B(op_constant_branch), B(op_mlp),
};

static void backward(void) {
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        ggml_reset(c);
        struct ggml_tensor * y = ops[i].make();
        struct ggml_tensor * loss = ggml_is_scalar(y) ? y : ggml_sum(c, y);
        ggml_set_loss(loss);
        struct ggml_cgraph * graph = ggml_new_graph_custom(c, 256, true);
        ggml_build_forward_expand(graph, loss);
        ggml_build_backward_expand(c, graph, NULL);
        show(ops[i].name, graph);
        for (int k = 0; k < ggml_graph_n_nodes(graph); k++) {
            struct ggml_tensor * t = ggml_graph_node(graph, k);
            const long slot = graph_slot(mem(graph), t);
            if (ggml_graph_get_grad(graph, t) != mem(graph)->grads[slot] || ggml_graph_get_grad_acc(graph, t) != mem(graph)->grad_accs[slot]) {
                printf("  get_grad and the memory do not agree\n");
            }
        }
    }
    /* With accumulators of the caller. */
    ggml_reset(c);
    struct ggml_tensor * x = par(m(6, 4)), *y = par(v(6));
    struct ggml_tensor * loss = ggml_sum(c, ggml_mul(c, x, ggml_add(c, x, y)));
    ggml_set_loss(loss);
    struct ggml_cgraph * graph = ggml_new_graph_custom(c, 256, true);
    ggml_build_forward_expand(graph, loss);
    struct ggml_tensor * accs[256] = { NULL };
    for (int k = 0; k < ggml_graph_n_nodes(graph); k++) {
        struct ggml_tensor * t = ggml_graph_node(graph, k);
        if ((t->flags & GGML_TENSOR_FLAG_PARAM) != 0) {
            accs[k] = ggml_set_name(ggml_dup_tensor(c, t), "accumulator");
            ggml_set_f32(accs[k], 7.0f);
        }
    }
    ggml_build_backward_expand(c, graph, accs);
    show("with accumulators", graph);
    ggml_graph_reset(graph);
    printf("reset: accumulator %g, loss %g\n", (double) ggml_get_f32_1d(ggml_graph_get_grad_acc(graph, x), 0), (double) ggml_get_f32_1d(ggml_graph_get_grad_acc(graph, loss), 0));
    show("dup of it", ggml_graph_dup(c, graph, true));
}

/* Addresses become #0, #1, ... in the order in which they appear: 0x and digits, or sixteen digits (Windows). */
static void print_without_addresses(FILE * in) {
    static char seen[4096][24];
    int         n = 0, ch;
    while ((ch = fgetc(in)) != EOF) {
        char   word[24];
        size_t len = 0;
        for (; ch != EOF && len + 1 < sizeof word && (isxdigit(ch) || (len == 1 && word[0] == '0' && ch == 'x')); ch = fgetc(in)) {
            word[len++] = (char) ch;
        }
        word[len] = '\0';
        if (len == 0) {
            putchar(ch);
            continue;
        }
        ungetc(ch, in);
        if (word[1] != 'x' && len != 16) {
            fputs(word, stdout);
            continue;
        }
        int i = 0;
        while (i < n && strcmp(seen[i], word) != 0) {
            i++;
        }
        if (i == n && n < 4096) {
            memcpy(seen[n++], word, sizeof word);
        }
        printf("#%d", i);
    }
}

/* `user` is a word that changes from run to run. It is printed as FILE. */
static void log_line(enum ggml_log_level level, const char * text, void * user) {
    printf("log %d: ", level);
    const size_t n = strlen(user);
    for (const char * p = text; *p != '\0';) {
        if (strncmp(p, user, n) == 0) {
            printf("FILE");
            p += n;
        } else {
            putchar(*p++);
        }
    }
}

static void printed(void) {
    ggml_reset(c);
    struct ggml_tensor * x = ggml_set_name(par(m(6, 4)), "x");
    struct ggml_tensor * w = ggml_new_tensor_3d(c, GGML_TYPE_F16, 6, 5, 2);
    struct ggml_tensor * k = v(3);
    struct ggml_tensor * loss = ggml_add(c, ggml_sum(c, ggml_mul(c, ggml_mul_mat(c, w, ggml_repeat_4d(c, x, 6, 4, 2, 1)), ggml_new_tensor_1d(c, GGML_TYPE_F32, 1))), ggml_sum(c, k));
    ggml_set_loss(loss);
    struct ggml_cgraph * forward_only = ggml_new_graph_custom(c, 64, false);
    ggml_build_forward_expand(forward_only, loss);
    struct ggml_cgraph * graph = ggml_new_graph_custom(c, 64, true);
    ggml_build_forward_expand(graph, loss);
    ggml_build_backward_expand(c, graph, NULL);
    char  path[] = "/tmp/ggml-dot-XXXXXX";
    const int fd = mkstemp(path);
    if (fd < 0) {
        printf("no temporary file\n");
        return;
    }
    close(fd);
    ggml_log_set(log_line, path);
    for (int way = 0; way < 2; way++) {
        ggml_graph_dump_dot(way == 0 ? graph : forward_only, way == 0 ? forward_only : NULL, path);
        FILE * file = fopen(path, "r");
        if (file != NULL) {
            print_without_addresses(file);
            fclose(file);
        }
    }
    remove(path);
    ggml_graph_print(graph);
    ggml_log_set(NULL, NULL);
}

int main(void) {
    const struct ggml_init_params params = { .mem_size = 64u << 20, .mem_buffer = NULL, .no_alloc = false };
    c = ggml_init(params);
    if (c == NULL) {
        return 1;
    }
    forward();
    views_and_orders();
    backward();
    printed();
    ggml_free(c);
    return 0;
}

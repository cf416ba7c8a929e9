/* Networks other than language models, whole on a Vulkan device: Whisper's encoder, and the UNet and the decoder of a
 * latent diffusion model, with random weights. A scheduler over the device and the CPU must leave no node to the CPU,
 * and the results must be those of the CPU. */
#include "check.h"
#include "encoder.h"

#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "ggml-vulkan.h"

enum { BATCH = 2, GROUPS = 8, HEADS = 4, TOKENS = 7 /* of the text */ };

/* For each channel of an image one number. */
static T channels(struct model * m, int64_t n) { return ggml_new_tensor_4d(m->c, GGML_TYPE_F32, 1, 1, n, 1); }

static T conv(struct model * m, T x, int64_t out, int size, int stride) {
    T w = ggml_new_tensor_4d(m->c, GGML_TYPE_F16, size, size, x->ne[2], out);
    return ggml_add(m->g, ggml_conv_2d(m->g, w, x, stride, stride, size / 2, size / 2, 1, 1), channels(m, out));
}

/* What comes before each convolution. */
static T active(struct model * m, T x) {
    x = ggml_group_norm(m->g, x, GROUPS, 1e-5f);
    return ggml_silu(m->g, ggml_add(m->g, ggml_mul(m->g, x, channels(m, x->ne[2])), channels(m, x->ne[2])));
}

/* `time`: NULL, or values for each image of the batch. */
static T residual(struct model * m, T x, T time, int64_t out) {
    T y = conv(m, active(m, x), out, 3, 1);
    if (time != NULL) { y = ggml_add(m->g, y, ggml_reshape_4d(m->g, linear(m, ggml_silu(m->g, time), out), 1, 1, out, BATCH)); }
    y = conv(m, active(m, y), out, 3, 1);
    return ggml_add(m->g, x->ne[2] == out ? x : conv(m, x, out, 1, 1), y);
}

/* A layer over the pixels of an image; `text`: NULL, or what it also attends to. */
static T transformer(struct model * m, T image, T text, bool flash) {
    const int64_t w = image->ne[0], h = image->ne[1], c = image->ne[2];
    T             x = ggml_group_norm(m->g, image, GROUPS, 1e-6f), y;
    x               = ggml_cont(m->g, ggml_permute(m->g, ggml_reshape_3d(m->g, x, w * h, c, BATCH), 1, 0, 2, 3));
    y               = norm(m, x);
    x               = ggml_add(m->g, x, attention(m, y, y, text != NULL ? HEADS : 1, BATCH, flash));
    if (text != NULL) {
        x = ggml_add(m->g, x, attention(m, norm(m, x), text, HEADS, BATCH, flash));
        x = ggml_add(m->g, x, linear(m, ggml_geglu(m->g, linear(m, norm(m, x), 8 * c)), c));
    }
    x = ggml_cont(m->g, ggml_permute(m->g, x, 1, 0, 2, 3));
    return ggml_add(m->g, image, ggml_reshape_4d(m->g, x, w, h, c, BATCH));
}

static T twice(struct model * m, T x) { return conv(m, ggml_upscale(m->g, x, 2, GGML_SCALE_MODE_NEAREST), x->ne[2], 3, 1); }

static T unet(struct model * m) {
    const int64_t c    = 32;
    T             text = ggml_new_tensor_3d(m->c, GGML_TYPE_F32, 48, TOKENS, BATCH);
    T             time = ggml_timestep_embedding(m->g, ggml_new_tensor_1d(m->c, GGML_TYPE_F32, BATCH), (int) c, 10000);
    time               = linear(m, ggml_silu(m->g, linear(m, time, 4 * c)), 4 * c);
    T x                = conv(m, ggml_new_tensor_4d(m->c, GGML_TYPE_F32, 16, 16, 4, BATCH), c, 3, 1);
    T kept[3]          = { x };
    x = kept[1] = transformer(m, residual(m, x, time, c), text, false);
    x = kept[2] = conv(m, x, c, 3, 2);
    x           = transformer(m, residual(m, x, time, 2 * c), text, true);
    x           = residual(m, x, time, 2 * c);
    x           = transformer(m, residual(m, ggml_concat(m->g, x, kept[2], 2), time, 2 * c), text, true);
    x           = twice(m, x);
    for (int i = 1; i >= 0; i--) { x = transformer(m, residual(m, ggml_concat(m->g, x, kept[i], 2), time, c), text, false); }
    return conv(m, active(m, x), 4, 3, 1);
}

/* From latent numbers to an image of four times the size. */
static T decoder(struct model * m) {
    const int64_t c = 32;
    T             x = conv(m, ggml_scale(m->g, ggml_new_tensor_4d(m->c, GGML_TYPE_F32, 12, 10, 4, BATCH), 5.5f), c, 3, 1);
    x               = residual(m, transformer(m, residual(m, x, NULL, c), NULL, false), NULL, c);
    x               = residual(m, twice(m, x), NULL, c);
    x               = residual(m, twice(m, x), NULL, c / 2);
    return ggml_clamp(m->g, ggml_scale_bias(m->g, conv(m, active(m, x), 3, 3, 1), 0.5f, 0.5f), 0.0f, 1.0f);
}

static T hears(struct model * m) {
    const struct shape s = { 3, 128, 512, 4, 150, 1 };
    return whisper(m, &s, 80);
}

/* The results of a network, to be freed: on the device, or on the CPU alone. Fails the test if the device leaves
 * something to the CPU. */
static float * results(T (*net)(struct model *), bool on_device, int64_t * n) {
    const struct ggml_init_params params = { 2048 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true };
    struct model                  m      = { ggml_init(params), ggml_init(params), GGML_TYPE_F16 };
    T                             out    = net(&m);
    struct ggml_cgraph *          graph  = ggml_new_graph(m.g);
    ggml_build_forward_expand(graph, out);
    ggml_backend_t        cpu     = ggml_backend_cpu_init();
    ggml_backend_t        all[2]  = { on_device ? ggml_backend_vk_init(0) : cpu, cpu };
    ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors(m.c, all[0]);
    ggml_backend_sched_t  sched   = ggml_backend_sched_new(all, NULL, on_device ? 2 : 1, GGML_DEFAULT_GRAPH_SIZE, false, true);
    CHECK(weights != NULL && sched != NULL);
    fill(&m);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph));
    if (on_device) {
        CHECK_EQ(ggml_backend_sched_get_n_splits(sched), 1);
        for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
            T node = ggml_graph_node(graph, i);
            if (ggml_backend_sched_get_tensor_backend(sched, node) != all[0]) { test_fails(__FILE__, __LINE__, "%s is not on the device", ggml_op_desc(node)); }
        }
    }
    CHECK_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
    *n        = ggml_nelements(out);
    float * x = malloc((size_t) *n * sizeof *x);
    ggml_backend_tensor_get(out, x, 0, ggml_nbytes(out));
    if (on_device) { printf("note: %d nodes, %lld results\n", ggml_graph_n_nodes(graph), (long long) *n); }
    ggml_backend_sched_free(sched);
    ggml_backend_buffer_free(weights);
    if (on_device) { ggml_backend_free(all[0]); }
    ggml_backend_free(cpu);
    ggml_free(m.g);
    ggml_free(m.c);
    return x;
}

static void is_the_same_on_the_device(T (*net)(struct model *)) {
    int64_t n = 0, same = 0;
    float * want = results(net, false, &same);
    float * have = results(net, true, &n);
    CHECK(n == same && n > 0);
    double error = 0.0, all = 0.0, mean = 0.0;
    for (int64_t i = 0; i < n; i++) { mean += want[i] / (double) n; }
    for (int64_t i = 0; i < n; i++) {
        error += ((double) have[i] - want[i]) * ((double) have[i] - want[i]);
        all += (want[i] - mean) * (want[i] - mean);
    }
    printf("note: NMSE %.2e\n", error / all);
    CHECK(all > 1e-6 * (double) n); /* results that differ from each other */
    if (!(error <= 1e-6 * all)) { test_fails(__FILE__, __LINE__, "NMSE %g", error / all); }
    free(want);
    free(have);
}

static void whispers_encoder(void) { is_the_same_on_the_device(hears); }
static void a_unet(void) { is_the_same_on_the_device(unet); }
static void the_decoder_of_its_images(void) { is_the_same_on_the_device(decoder); }

int main(void) {
    RUN(whispers_encoder);
    RUN(a_unet);
    RUN(the_decoder_of_its_images);
    return test_summary();
}

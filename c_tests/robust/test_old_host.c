/* A program that was compiled for an older ggml and calls functions that have got a parameter since. It states its
 * version in GGML_RS_HOST, or in a file beside the library: docs/VERSIONS.md. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-backend.h"
#include "ggml.h"

#include <dlfcn.h>
#include <limits.h>

/* The functions as older headers declare them. */
typedef struct ggml_tensor * old_scan(struct ggml_context *, struct ggml_tensor *, struct ggml_tensor *, struct ggml_tensor *, struct ggml_tensor *,
                                      struct ggml_tensor *, struct ggml_tensor *, struct ggml_tensor *);
typedef struct ggml_tensor * old_delta_net(struct ggml_context *, struct ggml_tensor *, struct ggml_tensor *, struct ggml_tensor *, struct ggml_tensor *,
                                           struct ggml_tensor *, struct ggml_tensor *);

enum { STATE = 4, WIDTH = 2, HEADS = 2, TOKENS = 5, GIVEN = 3, STATES_ARE = 10, NO_DEVICE = 1, A_DEVICE = 2 };

static struct ggml_context * context(void) {
    return ggml_init((struct ggml_init_params) { 1 << 20, NULL, true });
}

static struct ggml_tensor * floats(struct ggml_context * ctx, int64_t a, int64_t b, int64_t c) {
    return ggml_new_tensor_4d(ctx, GGML_TYPE_F32, a, b, c, 1);
}

/* Exits with the number of states that the result has. */
static void scan(void * is_old) {
    struct ggml_context * ctx = context();
    struct ggml_tensor *  s   = floats(ctx, STATE, WIDTH, HEADS);
    struct ggml_tensor *  x   = floats(ctx, WIDTH, HEADS, TOKENS);
    struct ggml_tensor *  dt  = floats(ctx, HEADS, TOKENS, 1);
    struct ggml_tensor *  A   = floats(ctx, 1, HEADS, 1);
    struct ggml_tensor *  BC  = floats(ctx, STATE, 1, TOKENS);
    struct ggml_tensor *  ids = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 1);
    old_scan *            old = (old_scan *) dlsym(RTLD_DEFAULT, "ggml_ssm_scan");
    struct ggml_tensor *  result =
        is_old != NULL ? old(ctx, s, x, dt, A, BC, BC, ids) : ggml_ssm_scan(ctx, s, x, dt, A, BC, BC, ids, GIVEN);
    _exit(STATES_ARE + (int) ((ggml_nelements(result) - ggml_nelements(x)) / ggml_nelements(s)));
}

static void delta_net(void * is_old) {
    struct ggml_context * ctx   = context();
    struct ggml_tensor *  v     = floats(ctx, STATE, HEADS, TOKENS);
    struct ggml_tensor *  g     = floats(ctx, 1, HEADS, TOKENS);
    struct ggml_tensor *  state = floats(ctx, STATE, STATE, HEADS);
    old_delta_net *       old   = (old_delta_net *) dlsym(RTLD_DEFAULT, "ggml_gated_delta_net");
    struct ggml_tensor *  result =
        is_old != NULL ? old(ctx, v, v, v, g, g, state) : ggml_gated_delta_net(ctx, v, v, v, g, g, state, GIVEN);
    _exit(STATES_ARE + (int) ((ggml_nelements(result) - ggml_nelements(v)) / ggml_nelements(state)));
}

static struct ggml_backend_meta_split_state mirrored(const struct ggml_tensor * tensor, void * user) {
    (void) tensor; (void) user;
    return (struct ggml_backend_meta_split_state) { .axis = GGML_BACKEND_SPLIT_AXIS_MIRRORED, .n_segments = 1 };
}

static void split(void * unused) {
    (void) unused;
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    _exit(ggml_backend_meta_device(&device, 1, mirrored, NULL) == NULL ? NO_DEVICE : A_DEVICE);
}

struct part {
    const char * version;
    void (*work)(void *);
    void * is_old;
};

static void with_version(void * data) {
    const struct part * part = data;
    if (part->version != NULL) { setenv("GGML_RS_HOST", part->version, 1); }
    part->work(part->is_old);
}

static int as_host_for(const char * version, void (*work)(void *), bool is_old) {
    struct part part = { version, work, is_old ? "old" : NULL };
    return child_run(with_version, &part);
}

static void test_scan(void) {
    CHECK_EQ(as_host_for("0.18.0", scan, true), STATES_ARE + 1);
    CHECK_EQ(as_host_for("0.18.0", scan, false), STATES_ARE + 1);
    CHECK_EQ(as_host_for("0.19.0", scan, false), STATES_ARE + GIVEN);
    CHECK_EQ(as_host_for("a version", scan, false), STATES_ARE + GIVEN);
    CHECK_EQ(as_host_for(NULL, scan, false), STATES_ARE + GIVEN);
}

static void test_delta_net(void) {
    CHECK_EQ(as_host_for("0.9.7", delta_net, true), CHILD_HEARD);
    CHECK_EQ(as_host_for("0.9.8", delta_net, true), STATES_ARE + 1);
    CHECK_EQ(as_host_for("0.12.0", delta_net, true), STATES_ARE + 1);
    CHECK_EQ(as_host_for("0.15.1", delta_net, false), STATES_ARE + GIVEN);
}

static void test_split(void) {
    CHECK_EQ(as_host_for("0.12.0", split, false), NO_DEVICE);
    CHECK_EQ(as_host_for("0.13.1", split, false), A_DEVICE);
    CHECK_EQ(as_host_for(NULL, split, false), A_DEVICE);
}

static const char * folder;

/* Starts this program again, so that it loads the library from the folder. */
static void from_folder(void * unused) {
    (void) unused;
    setenv("LD_LIBRARY_PATH", folder, 1);
    execl("/proc/self/exe", "test_old_host", "scan", NULL);
}

/* A link is enough: the file is looked for beside the link. */
static void test_file(void) {
    char    name[] = "/tmp/ggml-old-host-XXXXXX", path[PATH_MAX], real[PATH_MAX];
    Dl_info info;
    CHECK(dladdr((void *) ggml_ssm_scan, &info) != 0 && realpath(info.dli_fname, real) != NULL);
    CHECK((folder = mkdtemp(name)) != NULL);
    snprintf(path, sizeof path, "%s/libggml-base.so.0", name);
    CHECK_EQ(symlink(real, path), 0);
    CHECK_EQ(child_run(from_folder, NULL), STATES_ARE + GIVEN);
    snprintf(path, sizeof path, "%s/ggml-host-version.txt", name);
    FILE * file = fopen(path, "w");
    CHECK(file != NULL && fputs("0.18.0\n", file) >= 0 && fclose(file) == 0);
    CHECK_EQ(child_run(from_folder, NULL), STATES_ARE + 1);
    unlink(path);
    snprintf(path, sizeof path, "%s/libggml-base.so.0", name);
    unlink(path);
    rmdir(name);
}

int main(int argc, char ** argv) {
    if (argc > 1 && strcmp(argv[1], "scan") == 0) { scan(NULL); }
    RUN(test_scan);
    RUN(test_delta_net);
    RUN(test_split);
    RUN(test_file);
    return test_summary();
}

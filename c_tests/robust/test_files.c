/* Files that the library writes, and environment variables that name files and modules, if another user could have put
 * links there or chosen the values; and libraries that hold nothing new. */
#include "../common/check.h"
#include "../common/child.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-rs.h"
#include "gguf.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/auxv.h>
#include <sys/stat.h>

enum { SOMEBODY = 12345 };

static char folder[64];

static const char * in_folder(const char * name) {
    static char path[4][160];
    static int  next;
    char *      p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void write_text(const char * path, const char * text) {
    FILE * f = fopen(path, "wb");
    CHECK(f != NULL);
    if (f != NULL) {
        fputs(text, f);
        fclose(f);
    }
}

static long size_of(const char * path) {
    struct stat s;
    return stat(path, &s) == 0 ? (long) s.st_size : -1;
}

struct world {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    ggml_backend_t        backend;
    ggml_backend_sched_t  sched;
};

static struct world begin(void) {
    struct world w;
    w.ctx                  = ggml_init((struct ggml_init_params) { 1u << 18, NULL, true });
    struct ggml_tensor * x = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 8);
    ggml_set_input(x);
    w.graph = ggml_new_graph(w.ctx);
    ggml_build_forward_expand(w.graph, ggml_sqr(w.ctx, x));
    w.backend = ggml_backend_cpu_init();
    w.sched   = ggml_backend_sched_new(&w.backend, NULL, 1, 64, false, false);
    CHECK(ggml_backend_sched_alloc_graph(w.sched, w.graph));
    return w;
}

static void end(struct world * w) {
    ggml_backend_sched_free(w->sched);
    ggml_backend_free(w->backend);
    ggml_free(w->ctx);
}

/* Writes each kind of file to `path`. Returns how many were written. */
static int write_all(struct world * w, const char * path) {
    int n = 0;
    n += ggml_rs_trace_start(path);
    ggml_rs_trace_stop();
    n += ggml_rs_sched_write_report(w->sched, GGML_RS_FORMAT_JSON, path);
    ggml_rs_clear_error();
    ggml_graph_dump_dot(w->graph, NULL, path);
    n += ggml_rs_last_error()[0] == '\0';
    return n;
}

static void links_of_others_are_not_followed(void) {
    struct world w = begin();
    write_text(in_folder("precious"), "do not lose this");
    CHECK(symlink(in_folder("precious"), in_folder("link")) == 0);
    if (geteuid() == 0) {
        CHECK(lchown(in_folder("link"), SOMEBODY, SOMEBODY) == 0);
        CHECK_EQ(write_all(&w, in_folder("link")), 0);
        CHECK_EQ(size_of(in_folder("precious")), 16);
        CHECK(lchown(in_folder("link"), 0, 0) == 0);
    }
    /* Links of the same user and of the system are followed. */
    CHECK_EQ(write_all(&w, in_folder("link")), 3);
    CHECK(size_of(in_folder("precious")) > 16);
    CHECK_EQ(write_all(&w, in_folder("new")), 3);
    CHECK(size_of(in_folder("new")) > 16);
    CHECK_EQ(write_all(&w, "/dev/fd/1/nothing"), 0);
    end(&w);
    remove(in_folder("link"));
    remove(in_folder("precious"));
    remove(in_folder("new"));
}

/* ---- programs with more rights than their user ---- */

static int mentions;

static void hear(enum ggml_log_level level, const char * text, void * user) {
    (void) level; (void) user;
    mentions += strstr(text, "chosen-by-the-user") != NULL;
}

/* Does what each variable affects. Returns a bit for each variable that had an effect. */
static int heard(void) {
    ggml_log_set(hear, NULL);
    ggml_backend_dev_count();
    ggml_backend_load_all();
    struct world w = begin();
    ggml_backend_sched_graph_compute(w.sched, w.graph);
    ggml_rs_trace_stop();
    end(&w);
    return (mentions > 0) | (size_of(getenv("GGML_TRACE")) > 0) << 1 | (size_of(getenv("GGML_SCHED_REPORT")) > 0) << 2;
}

static void run_by_another_user(void * program) {
    char * argv[] = { program, "heard", NULL };
    if (setgid(SOMEBODY) != 0 || setuid(SOMEBODY) != 0) { _exit(90); }
    execv(program, argv);
    _exit(91);
}

static void run_as_it_is(void * program) {
    char * argv[] = { program, "heard", NULL };
    execv(program, argv);
    _exit(91);
}

static bool copy_file(const char * from, const char * to) {
    static char bytes[1 << 16];
    const int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0755);
    ssize_t   n  = in < 0 || out < 0 ? -1 : 1;
    while (n > 0) {
        n = read(in, bytes, sizeof bytes);
        if (n > 0 && write(out, bytes, (size_t) n) != n) { n = -1; }
    }
    close(in);
    close(out);
    return n == 0;
}

static void privileged_programs_do_not_hear_their_user(void) {
    setenv("GGML_BACKEND_PATH", in_folder("chosen-by-the-user.so"), 1);
    setenv("GGML_TRACE", in_folder("trace.json"), 1);
    setenv("GGML_SCHED_REPORT", in_folder("report.json"), 1);
    const char * program = in_folder("program");
    CHECK(copy_file("/proc/self/exe", program));
    CHECK_EQ(child_run(run_as_it_is, (void *) (uintptr_t) program), 7); /* all variables */
    remove(in_folder("trace.json"));
    remove(in_folder("report.json"));
    if (geteuid() == 0) {
        CHECK(chmod(folder, 0777) == 0 && chmod(program, 04755) == 0);
        const int status = child_run(run_by_another_user, (void *) (uintptr_t) program);
        if (status == 77 || status == 127) {
            printf("note: programs in %s get no rights by a bit, or the other user cannot read the library\n", folder);
        } else {
            CHECK_EQ(status, 0);
        }
    }
    unsetenv("GGML_BACKEND_PATH");
    unsetenv("GGML_TRACE");
    unsetenv("GGML_SCHED_REPORT");
    remove(in_folder("trace.json"));
    remove(in_folder("report.json"));
    remove(program);
}

/* ---- libraries that hold nothing new ---- */

static void our_own_files_bring_nothing_and_take_nothing(void) {
    Dl_info base, cpu;
    CHECK(dladdr((void *) (uintptr_t) ggml_init, &base) != 0 && dladdr((void *) (uintptr_t) ggml_backend_cpu_init, &cpu) != 0);
    char base_path[PATH_MAX], cpu_path[PATH_MAX];
    CHECK(realpath(base.dli_fname, base_path) != NULL);
    char * slash = strrchr(base.dli_fname, '/');
    CHECK(slash != NULL);
    snprintf(cpu_path, sizeof cpu_path, "%.*s/libggml-cpu.so", slash == NULL ? 0 : (int) (slash - base.dli_fname), base.dli_fname);
    const size_t regs = ggml_backend_reg_count(), devices = ggml_backend_dev_count();
    const char * paths[] = { base_path, cpu_path };
    for (int i = 0; i < 2; i++) {
        ggml_backend_reg_t reg = ggml_backend_load(paths[i]);
        if (reg == NULL) { continue; } /* it may also say that it is no module */
        ggml_backend_unload(reg);
        CHECK_EQ(ggml_backend_reg_count(), regs);
        CHECK_EQ(ggml_backend_dev_count(), devices);
        CHECK(ggml_backend_dev_by_name("CPU") != NULL && ggml_backend_reg_by_name("CPU") != NULL);
        ggml_backend_t backend = ggml_backend_init_by_name("CPU", NULL);
        CHECK(backend != NULL);
        ggml_backend_free(backend);
    }
    CHECK(ggml_backend_load(cpu_path) != NULL);
    /* The first call undoes the load above, the second one removes the CPU itself. */
    ggml_backend_reg_t reg = ggml_backend_reg_by_name("CPU");
    ggml_backend_unload(reg);
    CHECK_EQ(ggml_backend_reg_count(), regs);
    ggml_backend_unload(reg);
    CHECK_EQ(ggml_backend_reg_count(), regs - 1);
    ggml_backend_register(reg);
    CHECK_EQ(ggml_backend_reg_count(), regs);
}

/* Functions that change the contents return nothing: a change that is missing must not go unnoticed. */
static void contents_that_lack_a_change_are_not_written(void) {
    ggml_log_set(child_quiet, NULL);
    ggml_rs_set_policy(GGML_RS_POLICY_ERROR);
    struct gguf_context * g = gguf_init_empty();
    gguf_set_val_u32(g, "a", 1);
    char   meta[1024];
    FILE * f = tmpfile();
    CHECK(gguf_get_meta_size(g) > 0 && gguf_write_to_file_ptr(g, f, false));
    gguf_set_val_u32(g, "general.alignment", 3);
    CHECK_EQ(gguf_get_meta_size(g), 0);
    CHECK(strstr(ggml_rs_last_error(), "incomplete") != NULL);
    memset(meta, 7, sizeof meta);
    gguf_get_meta_data(g, meta);
    CHECK(meta[0] == 7);
    CHECK(!gguf_write_to_file_ptr(g, f, false) && !gguf_write_to_file(g, "/tmp/robust-must-not-be-there", true));
    CHECK(access("/tmp/robust-must-not-be-there", F_OK) != 0);
    gguf_free(g);
    fclose(f);
    ggml_rs_set_policy(GGML_RS_POLICY_ABORT);
    ggml_log_set(NULL, NULL);
}

int main(int argc, char ** argv) {
    if (argc > 1 && strcmp(argv[1], "heard") == 0) {
        if (getuid() != geteuid() && getauxval(AT_SECURE) == 0) { return 78; }
        if (getuid() == SOMEBODY && geteuid() == SOMEBODY) { return 77; }
        return heard();
    }
    ggml_log_set(child_quiet, NULL);
    snprintf(folder, sizeof folder, "/tmp/ggml-files-XXXXXX");
    if (mkdtemp(folder) == NULL) { return 1; }
    RUN(privileged_programs_do_not_hear_their_user);
    RUN(links_of_others_are_not_followed);
    RUN(our_own_files_bring_nothing_and_take_nothing);
    rmdir(folder);
    RUN(contents_that_lack_a_change_are_not_written);
    return test_summary();
}

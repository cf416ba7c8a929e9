// Measures the errors of all operations that compute, on rows of several kinds of numbers, against double precision.
// errors.py runs it with several libraries and compares.
//
//     errors [-c] [-k NAME_PART]     -c: rounds the inputs to six bits first, an error that errors.py must detect
//
// Prints "library<tab>NAME", "features<tab>...", then "error<tab>OPERATION<tab>CLASS<tab>NMSE<tab>LARGEST" for each
// operation and class of numbers. NMSE is the sum of the squared errors over the sum of the squared results. LARGEST is
// the largest error of a single result, in the mean of several computations with other numbers, relative to that
// result; of a sum with terms of both signs (`Kind::sum`), relative to that result or the root of the mean square of
// all results, if that is greater. Below the smallest normal number, it is relative to that number. Infinity: a result
// that is not finite and should be. Inputs are the same on every machine. Everything is computed on one thread.
#include "errors.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

namespace errors {

std::vector<Case> cases;

const char * const class_names[] = { "ordinary", "cancelling", "near their mean", "sigma 20", "wide", "1e-30", "1e30", "subnormal", "long", "long, cancelling" };

// Standard normal, as the sum of twelve: the same everywhere.
static double normal(uint64_t * state) {
    double sum = -6;
    for (int i = 0; i < 12; i++) { sum += (double) (data_next(state) >> 40) / 16777216.0; }
    return sum;
}

static double number(Class which, Role role, int64_t i, uint64_t * state) {
    switch (role) {
        case Role::weight: return normal(state);
        case Role::small: return 0.1 * normal(state);
        case Role::unit: return (double) (data_next(state) >> 40) / 16777216.0;
        case Role::positive: return 0.5 + (double) (data_next(state) >> 40) / 16777216.0;
        case Role::data: break;
    }
    switch (which) {
        case Class::cancelling:
        case Class::long_cancelling: return (i % 2 ? -1 : 1) * (1000.0 + (double) (i % 13)) + 0.001 + 0.01 * normal(state);
        case Class::near_mean: return 100 + 0.01 * normal(state);
        case Class::sigma20: return 20 * normal(state);
        case Class::wide: return -110 + 200 * ((double) (data_next(state) >> 40) / 16777216.0);
        case Class::tiny: return 1e-30 * normal(state);
        case Class::huge: return 1e30 * normal(state);
        case Class::subnormal: return 2e-39 * normal(state);
        default: return normal(state);
    }
}

static bool coarse;

const int ROUNDS = 8; // computations of a case, with other numbers

// Writes the numbers of an input, and returns them as they are stored.
static std::vector<double> fill(ggml_tensor * t, Class which, const Input & in, uint64_t seed) {
    const auto n = (size_t) ggml_nelements(t);
    uint64_t state = seed * 7919 + (uint64_t) which;
    if (t->type == GGML_TYPE_I32) {
        std::vector<int32_t> v(n);
        for (size_t i = 0; i < n; i++) { v[i] = in.below > 0 ? (int32_t) (data_next(&state) % (uint64_t) in.below) : (int32_t) i; }
        ggml_backend_tensor_set(t, v.data(), 0, n * 4);
        return { v.begin(), v.end() };
    }
    std::vector<float> v(n);
    for (size_t i = 0; i < n; i++) {
        const double x = number(which, in.role, (int64_t) i, &state);
        v[i] = (float) (in.negative ? -std::fabs(x) : in.positive ? std::fabs(x) : x);
    }
    const ggml_type_traits * traits = ggml_get_type_traits(t->type);
    std::vector<uint8_t> bytes(ggml_nbytes(t));
    std::vector<double> exact;
    for (int pass = 0; pass < (coarse ? 2 : 1); pass++) {
        for (size_t i = 0; pass > 0 && i < n; i++) {
            uint32_t bits;
            std::memcpy(&bits, &v[i], 4);
            bits = (bits + 0x10000u) & ~0x1FFFFu;
            std::memcpy(&v[i], &bits, 4);
        }
        if (t->type == GGML_TYPE_F32) {
            std::memcpy(bytes.data(), v.data(), bytes.size());
        } else {
            traits->from_float_ref(v.data(), bytes.data(), (int64_t) n);
            traits->to_float(bytes.data(), v.data(), (int64_t) n);
        }
        if (pass == 0) { exact.assign(v.begin(), v.end()); }
    }
    ggml_backend_tensor_set(t, bytes.data(), 0, bytes.size());
    return exact;
}

// Operations and functions that only move numbers, compare them, or round them to integers: they have no errors, and
// the suite `ops` compares them bit by bit. Also those that the host computes with a callback, and FLASH_ATTN_BACK,
// which has no constructor that works.
static const std::set<std::string> exact = {
    "NONE", "DUP", "CONT", "CPY", "SET", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE", "GET_ROWS", "SET_ROWS", "DIAG", "DIAG_MASK_INF", "DIAG_MASK_ZERO", "CONCAT", "REPEAT",
    "IM2COL", "IM2COL_3D", "PAD", "PAD_REFLECT_1D", "ROLL", "ARGSORT", "ARGMAX", "TOP_K", "TOP_K_MASK", "COUNT_EQUAL", "TRI", "FILL", "WIN_PART", "WIN_UNPART", "GET_REL_POS",
    "MAP_CUSTOM1", "MAP_CUSTOM2", "MAP_CUSTOM3", "CUSTOM", "FLASH_ATTN_BACK", "UNARY", "GLU", "SGN", "STEP", "FLOOR", "CEIL", "ROUND", "TRUNC",
};
static std::set<std::string> with_a_case;

// Prints the operations that no case computes: a new operation needs a case.
static void check_completeness() {
    std::vector<std::string> all;
    for (int i = 0; i < GGML_OP_COUNT; i++) { all.push_back(ggml_op_name((ggml_op) i)); }
    for (int i = 0; i < GGML_UNARY_OP_COUNT; i++) { all.push_back(ggml_unary_op_name((ggml_unary_op) i)); }
    for (int i = 0; i < GGML_GLU_OP_COUNT; i++) { all.push_back(ggml_glu_op_name((ggml_glu_op) i)); }
    for (auto & name : all) {
        if (exact.count(name) == 0 && with_a_case.count(name) == 0) { std::printf("missing\t%s\n", name.c_str()); }
    }
}

// The errors of several computations of a case.
struct Errors {
    double wrong = 0, whole = 0, largest = 0; // the last is the sum of the largest errors of the computations
    double nmse() const { return wrong == 0 ? 0 : whole == 0 ? INFINITY : wrong / whole; }
    void add(const std::vector<float> & got, const V & want, Kind kind);
};

void Errors::add(const std::vector<float> & got, const V & want, Kind kind) {
    // The first number that rounds to infinity.
    const double end = 340282356779733661637539395458142568448.0;
    double squares = 0, finite = 0;
    for (double w : want) {
        if (std::fabs(w) < end) {
            squares += w * w;
            finite++;
        }
    }
    whole += squares;
    double most = 0;
    const double typical = kind == Kind::sum && finite > 0 ? std::sqrt(squares / finite) : 0;
    for (size_t i = 0; i < want.size(); i++) {
        const double w = want[i], g = (double) got[i];
        if (std::isnan(w) ? std::isnan(g) : !(std::fabs(w) < end) && std::isinf(g) && (g > 0) == (w > 0)) { continue; }
        if (!std::isfinite(g) || !(std::fabs(w) < end)) {
            wrong = largest = INFINITY;
            return;
        }
        const double d = std::fabs(g - w);
        wrong += d * d;
        most = std::max(most, d / std::max({ std::fabs(w), typical, 1.17549435e-38 }));
    }
    largest += most;
}

static bool run(ggml_backend_t backend, const Case & test, Class which, uint64_t seed, Errors & e) {
    ggml_init_params params = { 1u << 20, nullptr, true };
    ggml_context * c = ggml_init(params);
    std::vector<ggml_tensor *> in;
    for (auto & i : test.inputs) { in.push_back(ggml_new_tensor(c, i.type, (int) i.ne.size(), i.ne.data())); }
    ggml_tensor * out = test.build(c, in);
    with_a_case.insert(out->op == GGML_OP_UNARY ? ggml_unary_op_name(ggml_get_unary_op(out)) : out->op == GGML_OP_GLU ? ggml_glu_op_name(ggml_get_glu_op(out)) : ggml_op_name(out->op));
    ggml_cgraph * graph = ggml_new_graph(c);
    ggml_build_forward_expand(graph, out);
    bool done = true;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) { done = done && ggml_backend_supports_op(backend, ggml_graph_node(graph, i)); }
    ggml_backend_buffer_t buffer = done ? ggml_backend_alloc_ctx_tensors(c, backend) : nullptr;
    if (done && buffer != nullptr) {
        std::vector<V> x;
        for (size_t i = 0; i < in.size(); i++) { x.push_back(fill(in[i], which, test.inputs[i], seed + i)); }
        done = ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS;
        const auto n = (size_t) ggml_nelements(out);
        std::vector<float> got(n);
        if (out->type == GGML_TYPE_F32) {
            ggml_backend_tensor_get(out, got.data(), 0, n * 4);
        } else {
            std::vector<uint8_t> bytes(ggml_nbytes(out));
            ggml_backend_tensor_get(out, bytes.data(), 0, bytes.size());
            ggml_get_type_traits(out->type)->to_float(bytes.data(), got.data(), (int64_t) n);
        }
        V want = test.reference(x);
        got.resize(std::min(got.size(), want.size()));
        if (want.size() > got.size()) {
            std::fprintf(stderr, "%s: %zu results, not %zu\n", test.name.c_str(), got.size(), want.size());
            std::exit(1);
        }
        e.add(got, want, test.kind);
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(c);
    return done;
}

} // namespace errors

int main(int argc, char ** argv) {
    using namespace errors;
    const char * part = nullptr;
    for (int i = 1; i < argc; i++) {
        if (std::strcmp(argv[i], "-k") == 0 && i + 1 < argc) {
            part = argv[++i];
        } else if (std::strcmp(argv[i], "-c") == 0) {
            coarse = true;
        } else {
            std::fprintf(stderr, "usage: errors [-c] [-k NAME_PART]\n");
            return 2;
        }
    }
    ggml_cpu_init();
    list_maps();
    list_rows();
    list_products();
    list_others();
    ggml_backend_t backend = ggml_backend_cpu_init();
    if (backend == nullptr) { return 1; }
    ggml_backend_cpu_set_n_threads(backend, 1);
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
    auto get = (ggml_backend_get_features_t) ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features");
    std::printf("library\t%s\nfeatures\t", dlsym(RTLD_DEFAULT, "ggml_rs_get_abi") != nullptr ? "ours" : "original");
    for (auto * f = get != nullptr ? get(reg) : nullptr; f != nullptr && f->name != nullptr; f++) { std::printf("%s ", f->name); }
    std::printf("\n");
    for (auto & test : cases) {
        if (part != nullptr && test.name.find(part) == std::string::npos) { continue; }
        for (Class which : test.classes) {
            Errors e;
            // The mean of several largest errors varies less than one of them.
            const int rounds = which >= Class::long_rows ? 1 : ROUNDS;
            bool done = true;
            for (int round = 0; done && round < rounds; round++) {
                done = run(backend, test, which, data_hash(test.name.data(), test.name.size(), DATA_HASH0) + 100 * (uint64_t) round, e);
            }
            if (done) {
                std::printf("error\t%s\t%s\t%.6e\t%.6e\n", test.name.c_str(), class_names[(int) which], e.nmse(), e.largest / rounds);
            } else {
                std::printf("unsupported\t%s\t%s\n", test.name.c_str(), class_names[(int) which]);
            }
            std::fflush(stdout);
        }
    }
    if (part == nullptr) { check_completeness(); }
    ggml_backend_free(backend);
    return 0;
}

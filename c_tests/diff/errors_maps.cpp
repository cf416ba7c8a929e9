// Functions of single numbers: unary, of two numbers, gated units, steps of optimizers, for errors.cpp.
#include "errors.h"

namespace errors {

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
static double silu(double x) { return x < -1000 ? 0 : x * sigmoid(x); }
static double gelu(double x) { return x * sigmoid(2 * 0.79788456080286535587989211986876 * x * (1 + 0.044715 * x * x)); }
static double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
static double gelu_quick(double x) { return x * sigmoid(1.702 * x); }
static double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
static double hard(double x) { return std::min(1.0, std::max(0.0, (x + 3) / 6)); }
static double quiet(double x) { return std::isnan(x) ? 0 : x; } // 0 times infinity, where the limit is 0

static V map(const V & x, double (*f)(double)) {
    V y(x.size());
    std::transform(x.begin(), x.end(), y.begin(), [f](double x) { return quiet(f(x)); });
    return y;
}

template<typename F> static V map2(const V & a, const V & b, F f) {
    V y(a.size());
    for (size_t i = 0; i < a.size(); i++) { y[i] = quiet(f(a[i], b[i % b.size()])); }
    return y;
}

void list_maps() {
    const std::vector<int64_t> ne = { 1000, 5 };
    const struct { ggml_unary_op op; double (*f)(double); } unary[] = {
        { GGML_UNARY_OP_ABS, [](double x) { return std::fabs(x); } },
        { GGML_UNARY_OP_NEG, [](double x) { return -x; } },
        { GGML_UNARY_OP_TANH, [](double x) { return std::tanh(x); } },
        { GGML_UNARY_OP_ELU, [](double x) { return x > 0 ? x : std::expm1(x); } },
        { GGML_UNARY_OP_RELU, [](double x) { return std::max(x, 0.0); } },
        { GGML_UNARY_OP_SIGMOID, sigmoid },
        { GGML_UNARY_OP_GELU, gelu },
        { GGML_UNARY_OP_GELU_QUICK, gelu_quick },
        { GGML_UNARY_OP_SILU, silu },
        { GGML_UNARY_OP_HARDSWISH, [](double x) { return x * hard(x); } },
        { GGML_UNARY_OP_HARDSIGMOID, hard },
        { GGML_UNARY_OP_EXP, [](double x) { return std::exp(x); } },
        { GGML_UNARY_OP_EXPM1, [](double x) { return std::expm1(x); } },
        { GGML_UNARY_OP_SOFTPLUS, softplus },
        { GGML_UNARY_OP_GELU_ERF, gelu_erf },
    };
    for (auto & u : unary) {
        for (auto type : { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16 }) {
            Input in{ type, ne, Role::data, false, false, 0 };
            // Halves have no room for the other classes.
            const auto classes = type == GGML_TYPE_F32 ? everything : std::vector<Class>{ Class::ordinary, Class::sigma20 };
            add(std::string(ggml_unary_op_name(u.op)) + (type == GGML_TYPE_F32 ? "" : type == GGML_TYPE_F16 ? " f16" : " bf16"), { in },
                [op = u.op](ggml_context * c, const std::vector<T> & x) { return ggml_unary(c, x[0], op); }, [f = u.f](const std::vector<V> & x) { return map(x[0], f); }, Kind::each, classes);
        }
    }
    add("XIELU", { f32(ne) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_xielu(c, x[0], 0.5f, 0.75f, 1.5f, -1e-6f); }, [](const std::vector<V> & x) {
        // The parameters are what the constructor makes of its arguments: softplus of both, and beta more for negative
        // numbers.
        const double p = softplus(0.75), n = 1.5 + softplus(0.5), beta = 1.5, eps = (double) -1e-6f;
        V y(x[0]);
        for (auto & v : y) { v = v > 0 ? p * v * v + beta * v : (std::expm1(std::min(v, eps)) - v) * n + beta * v; }
        return y;
    });
    using Plain = T (*)(ggml_context *, T);
    const struct { const char * name; Plain make; double (*f)(double); bool positive; } plain[] = {
        { "SQR", ggml_sqr, [](double x) { return x * x; }, false },
        { "SQRT", ggml_sqrt, [](double x) { return std::sqrt(x); }, true },
        { "LOG", ggml_log, [](double x) { return std::log(x); }, true },
        { "SIN", ggml_sin, [](double x) { return std::sin(x); }, false },
        { "COS", ggml_cos, [](double x) { return std::cos(x); }, false },
    };
    for (auto & p : plain) {
        add(p.name, { p.positive ? abs_of(f32(ne)) : f32(ne) }, [make = p.make](ggml_context * c, const std::vector<T> & x) { return make(c, x[0]); },
            [f = p.f](const std::vector<V> & x) { return map(x[0], f); });
    }
    add("SCALE", { f32(ne) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_scale(c, x[0], 0.37f); },
        [](const std::vector<V> & x) { V y(x[0]); for (auto & v : y) { v *= (double) 0.37f; } return y; });
    add("SCALE with bias", { f32(ne) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_scale_bias(c, x[0], 0.37f, -2); },
        [](const std::vector<V> & x) { V y(x[0]); for (auto & v : y) { v = v * (double) 0.37f - 2; } return y; });
    add("CLAMP", { f32(ne) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_clamp(c, x[0], -0.5f, 0.25f); },
        [](const std::vector<V> & x) { V y(x[0]); for (auto & v : y) { v = std::min(0.25, std::max(-0.5, v)); } return y; });
    add("LEAKY_RELU", { f32(ne) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_leaky_relu(c, x[0], 0.1f, false); },
        [](const std::vector<V> & x) { V y(x[0]); for (auto & v : y) { v = v > 0 ? v : v * (double) 0.1f; } return y; });
    add("SILU_BACK", { f32(ne, Role::weight), f32(ne) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_silu_back(c, x[0], x[1]); }, [](const std::vector<V> & x) {
        return map2(x[0], x[1], [](double dy, double x) { const double s = sigmoid(x); return dy * s * (1 + x * (1 - s)); });
    });
    using Binary = T (*)(ggml_context *, T, T);
    const struct { const char * name; Binary make; double (*f)(double, double); Role second; } binary[] = {
        { "ADD", ggml_add, [](double a, double b) { return a + b; }, Role::data },
        { "SUB", ggml_sub, [](double a, double b) { return a - b; }, Role::data },
        { "MUL", ggml_mul, [](double a, double b) { return a * b; }, Role::weight },
        { "DIV", ggml_div, [](double a, double b) { return a / b; }, Role::positive },
    };
    for (auto & b : binary) {
        add(b.name, { f32(ne), f32({ 1000 }, b.second) }, [make = b.make](ggml_context * c, const std::vector<T> & x) { return make(c, x[0], x[1]); },
            [f = b.f](const std::vector<V> & x) { return map2(x[0], x[1], f); });
    }
    add("ADD1", { f32(ne), f32({ 1 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_add1(c, x[0], x[1]); },
        [](const std::vector<V> & x) { return map2(x[0], x[1], [](double a, double b) { return a + b; }); });
    const struct { ggml_glu_op op; double (*f)(double); } gated[] = {
        { GGML_GLU_OP_REGLU, [](double x) { return std::max(x, 0.0); } }, { GGML_GLU_OP_GEGLU, gelu },           { GGML_GLU_OP_SWIGLU, silu },
        { GGML_GLU_OP_GEGLU_ERF, gelu_erf },                               { GGML_GLU_OP_GEGLU_QUICK, gelu_quick },
    };
    for (auto & g : gated) {
        add(ggml_glu_op_name(g.op), { f32(ne), f32(ne, Role::weight) }, [op = g.op](ggml_context * c, const std::vector<T> & x) { return ggml_glu_split(c, x[0], x[1], op); },
            [f = g.f](const std::vector<V> & x) { return map2(map(x[0], f), x[1], [](double a, double b) { return a * b; }); });
    }
    add("SWIGLU_OAI", { f32(ne), f32(ne, Role::weight) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_swiglu_oai(c, x[0], x[1], 1.702f, 7); }, [](const std::vector<V> & x) {
        return map2(x[0], x[1], [](double a, double b) { a = std::min(a, 7.0); return a * sigmoid((double) 1.702f * a) * (std::min(7.0, std::max(-7.0, b)) + 1); });
    });
    add("SWIGLU_CLAMP", { f32(ne), f32(ne, Role::weight) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_swiglu_clamp(c, x[0], x[1], 7); }, [](const std::vector<V> & x) {
        return map2(x[0], x[1], [](double a, double b) { return silu(std::min(a, 7.0)) * std::min(7.0, std::max(-7.0, b)); });
    });
    add("OPT_STEP_SGD", { f32(ne), f32(ne, Role::weight), f32({ 2 }, Role::unit) }, [](ggml_context * c, const std::vector<T> & x) {
        ggml_set_param(x[0]);
        return ggml_opt_step_sgd(c, x[0], x[1], x[2]);
    }, [](const std::vector<V> & x) {
        return map2(x[0], x[1], [&](double w, double g) { return w * (1 - x[2][0] * x[2][1]) - x[2][0] * g; });
    }, Kind::sum);
    add("OPT_STEP_ADAMW", { f32(ne), f32(ne, Role::weight), f32(ne, Role::weight), abs_of(f32(ne, Role::weight)), f32({ 7 }, Role::unit) }, [](ggml_context * c, const std::vector<T> & x) {
        ggml_set_param(x[0]);
        return ggml_opt_step_adamw(c, x[0], x[1], x[2], x[3], x[4]);
    }, [](const std::vector<V> & x) {
        const V & p = x[4];
        V y(x[0]);
        for (size_t i = 0; i < y.size(); i++) {
            const double m = x[2][i] * p[1] + x[1][i] * (1 - p[1]), v = x[3][i] * p[2] + x[1][i] * x[1][i] * (1 - p[2]);
            y[i] = y[i] * (1 - p[0] * p[4]) - p[0] * (m * p[5]) / (std::sqrt(v * p[6]) + p[3]);
        }
        return y;
    }, Kind::sum);
}

} // namespace errors

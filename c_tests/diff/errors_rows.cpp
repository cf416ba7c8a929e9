// Sums, norms, softmax and other functions of rows, for errors.cpp.
#include "errors.h"

namespace errors {

using Rows = std::function<void(const double * x, size_t n, V & y)>; // appends its results

// Calls `f` for each row of `n` numbers.
static std::function<V(const std::vector<V> &)> each_row(int64_t n, Rows f) {
    return [=](const std::vector<V> & x) {
        V y;
        for (size_t i = 0; i < x[0].size(); i += (size_t) n) { f(&x[0][i], (size_t) n, y); }
        return y;
    };
}

static double sum_of(const double * x, size_t n) {
    // As exact as twice the precision of a double.
    double sum = 0, rest = 0;
    for (size_t i = 0; i < n; i++) {
        const double all = sum + x[i], back = all - sum;
        rest += (sum - (all - back)) + (x[i] - back);
        sum = all;
    }
    return sum + rest;
}
static double squares_of(const double * x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) { sum += x[i] * x[i]; }
    return sum;
}

static V softmax(const double * x, size_t n, double sink) {
    double top = sink, sum = 0;
    for (size_t i = 0; i < n; i++) { top = std::max(top, x[i]); }
    V y(n);
    for (size_t i = 0; i < n; i++) { sum += y[i] = std::exp(x[i] - top); }
    sum += std::exp(sink - top);
    for (auto & v : y) { v /= sum; }
    return y;
}

static void normalised(const double * x, size_t n, double eps, V & y) {
    const double mean = sum_of(x, n) / (double) n;
    V d(x, x + n);
    for (auto & v : d) { v -= mean; }
    const double factor = 1 / std::sqrt(squares_of(d.data(), n) / (double) n + eps);
    for (auto v : d) { y.push_back(v * factor); }
}

// Rows of `n` numbers, `rows` of them.
static void of_rows(int64_t n, int64_t rows, const std::string & name, const std::vector<Class> & classes) {
    const Input in = f32({ n, rows });
    using Plain = T (*)(ggml_context *, T);
    const struct { const char * name; Plain make; Rows f; } plain[] = {
        { "SUM_ROWS", ggml_sum_rows, [](const double * x, size_t n, V & y) { y.push_back(sum_of(x, n)); } },
        { "MEAN", ggml_mean, [](const double * x, size_t n, V & y) { y.push_back(sum_of(x, n) / (double) n); } },
        { "CUMSUM", ggml_cumsum, [](const double * x, size_t n, V & y) { double sum = 0; for (size_t i = 0; i < n; i++) { y.push_back(sum += x[i]); } } },
        { "SOFT_MAX", ggml_soft_max, [](const double * x, size_t n, V & y) { for (double p : softmax(x, n, -INFINITY)) { y.push_back(p); } } },
    };
    for (auto & p : plain) {
        add(p.name + name, { in }, [make = p.make](ggml_context * c, const std::vector<T> & x) { return make(c, x[0]); }, each_row(n, p.f), p.make == ggml_soft_max ? Kind::each : Kind::sum, classes);
    }
    add("SUM" + name, { in }, [](ggml_context * c, const std::vector<T> & x) { return ggml_sum(c, x[0]); },
        [](const std::vector<V> & x) { return V{ sum_of(x[0].data(), x[0].size()) }; }, Kind::sum, classes);
    const double eps = (double) 1e-5f;
    add("NORM" + name, { in }, [](ggml_context * c, const std::vector<T> & x) { return ggml_norm(c, x[0], 1e-5f); },
        each_row(n, [=](const double * x, size_t n, V & y) { normalised(x, n, eps, y); }), Kind::each, classes);
    add("RMS_NORM" + name, { in }, [](ggml_context * c, const std::vector<T> & x) { return ggml_rms_norm(c, x[0], 1e-5f); }, each_row(n, [=](const double * x, size_t n, V & y) {
        const double factor = 1 / std::sqrt(squares_of(x, n) / (double) n + eps);
        for (size_t i = 0; i < n; i++) { y.push_back(x[i] * factor); }
    }), Kind::each, classes);
    add("L2_NORM" + name, { in }, [](ggml_context * c, const std::vector<T> & x) { return ggml_l2_norm(c, x[0], 1e-5f); }, each_row(n, [=](const double * x, size_t n, V & y) {
        const double factor = 1 / std::max(std::sqrt(squares_of(x, n)), eps);
        for (size_t i = 0; i < n; i++) { y.push_back(x[i] * factor); }
    }), Kind::each, classes);
    add("CROSS_ENTROPY_LOSS" + name, { in, f32({ n, rows }, Role::unit) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_cross_entropy_loss(c, x[0], x[1]); }, [=](const std::vector<V> & x) {
        double total = 0;
        for (size_t r = 0; r < (size_t) rows; r++) {
            const double * a = &x[0][r * (size_t) n];
            double top = -INFINITY, sum = 0;
            for (size_t i = 0; i < (size_t) n; i++) { top = std::max(top, a[i]); }
            for (size_t i = 0; i < (size_t) n; i++) { sum += std::exp(a[i] - top); }
            for (size_t i = 0; i < (size_t) n; i++) { total += (a[i] - top - std::log(sum)) * x[1][r * (size_t) n + i]; }
        }
        return V{ -total / (double) rows };
    }, Kind::sum, classes);
    // The gradients take a result of softmax, whose rows do not depend on the class.
    add("SOFT_MAX_BACK" + name, { in, f32({ n, rows }, Role::unit) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_soft_max_ext_back(c, x[0], x[1], 0.5f, 0); }, [=](const std::vector<V> & x) {
        V y(x[0].size());
        for (size_t r = 0; r < y.size(); r += (size_t) n) {
            double dot = 0;
            for (size_t i = r; i < r + (size_t) n; i++) { dot += x[0][i] * x[1][i]; }
            for (size_t i = r; i < r + (size_t) n; i++) { y[i] = (x[0][i] - dot) * x[1][i] * 0.5; }
        }
        return y;
    }, Kind::sum, classes);
    add("RMS_NORM_BACK" + name, { f32({ n, rows }, Role::weight), in }, [](ggml_context * c, const std::vector<T> & x) { return ggml_rms_norm_back(c, x[0], x[1], 1e-5f); }, [=](const std::vector<V> & x) {
        V y(x[0].size());
        for (size_t r = 0; r < y.size(); r += (size_t) n) {
            double dot = 0;
            for (size_t i = r; i < r + (size_t) n; i++) { dot += x[0][i] * x[1][i]; }
            const double squares = squares_of(&x[1][r], (size_t) n), mean = squares / (double) n + eps;
            for (size_t i = r; i < r + (size_t) n; i++) { y[i] = (x[0][i] - x[1][i] * dot / (squares + eps * (double) n)) / std::sqrt(mean); }
        }
        return y;
    }, Kind::sum, classes);
}

void list_rows() {
    of_rows(1000, 33, "", everything);
    of_rows((1 << 20) + 3, 1, ", rows of a million", long_ones);
    const int64_t four = 4000000;
    const std::vector<Class> cancelling = { Class::long_rows, Class::long_cancelling };
    const struct { const char * name; T (*make)(ggml_context *, T); double divisor; } sums[] = { { "SUM", ggml_sum, 1 }, { "SUM_ROWS", ggml_sum_rows, 1 }, { "MEAN", ggml_mean, (double) four } };
    for (auto & s : sums) {
        add(std::string(s.name) + ", a row of four million", { f32({ four }) }, [make = s.make](ggml_context * c, const std::vector<T> & x) { return make(c, x[0]); },
            [divisor = s.divisor](const std::vector<V> & x) { return V{ sum_of(x[0].data(), x[0].size()) / divisor }; }, Kind::sum, cancelling);
    }
    for (auto type : { GGML_TYPE_F16, GGML_TYPE_BF16 }) {
        add(type == GGML_TYPE_F16 ? "SUM f16" : "SUM bf16", { { type, { 4000 }, Role::data, false, false, 0 } }, [](ggml_context * c, const std::vector<T> & x) { return ggml_sum(c, x[0]); },
            [](const std::vector<V> & x) { return V{ sum_of(x[0].data(), x[0].size()) }; }, Kind::sum, { Class::ordinary, Class::cancelling, Class::sigma20 });
    }
    add("SOFT_MAX with mask and sinks", { f32({ 200, 7, 4 }), f32({ 200, 7 }, Role::weight), f32({ 4 }, Role::weight) }, [](ggml_context * c, const std::vector<T> & x) {
        T y = ggml_soft_max_ext(c, x[0], x[1], 0.125f, 0);
        ggml_soft_max_add_sinks(y, x[2]);
        return y;
    }, [](const std::vector<V> & x) {
        V y;
        for (size_t r = 0; r < 28; r++) {
            V row(200);
            for (size_t i = 0; i < 200; i++) { row[i] = x[0][200 * r + i] * 0.125 + x[1][200 * (r % 7) + i]; }
            for (double p : softmax(row.data(), 200, x[2][r / 7])) { y.push_back(p); }
        }
        return y;
    });
    add("CROSS_ENTROPY_LOSS_BACK", { f32({ 1 }, Role::positive), f32({ 300, 7 }), f32({ 300, 7 }, Role::unit) }, [](ggml_context * c, const std::vector<T> & x) {
        return ggml_cross_entropy_loss_back(c, x[0], x[1], x[2]);
    }, [](const std::vector<V> & x) {
        V y;
        for (size_t r = 0; r < 7; r++) {
            const V p = softmax(&x[1][300 * r], 300, -INFINITY);
            for (size_t i = 0; i < 300; i++) { y.push_back((p[i] - x[2][300 * r + i]) * x[0][0] / 7); }
        }
        return y;
    }, Kind::sum);
    add("GROUP_NORM", { f32({ 30, 20, 12, 2 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_group_norm(c, x[0], 4, 1e-5f); },
        each_row(30 * 20 * 3, [](const double * x, size_t n, V & y) { normalised(x, n, (double) 1e-5f, y); }));
    add("REPEAT_BACK", { f32({ 64, 90 }) }, [](ggml_context * c, const std::vector<T> & x) { return ggml_repeat_back(c, x[0], ggml_new_tensor_2d(c, GGML_TYPE_F32, 8, 3)); }, [](const std::vector<V> & x) {
        V y(24);
        for (size_t i = 0; i < x[0].size(); i++) { y[i / 64 % 3 * 8 + i % 8] += x[0][i]; }
        return y;
    }, Kind::sum);
}

} // namespace errors

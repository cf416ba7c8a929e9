/* Shared by errors.cpp and the files of its cases. */
#pragma once

#include "../common/data.h"

#include "ggml.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace errors {

using V = std::vector<double>;
using T = ggml_tensor *;

// What the numbers of an input are like: `data` depends on the class, the others do not.
enum class Role { data, weight, small, unit, positive };

// Classes of numbers. `long_rows`: ordinary numbers in a case with rows of a million.
enum class Class { ordinary, cancelling, near_mean, sigma20, wide, tiny, huge, subnormal, long_rows, long_cancelling };

// Whether each result is its own function of few numbers, or a sum that may cancel.
enum class Kind { each, sum };

struct Input {
    ggml_type            type;
    std::vector<int64_t> ne;
    Role                 role = Role::data;
    bool                 positive = false, negative = false;
    int64_t              below = 0;
};

inline Input f32(std::vector<int64_t> ne, Role role = Role::data) { return { GGML_TYPE_F32, std::move(ne), role, false, false, 0 }; }
inline Input abs_of(Input in) { in.positive = true; return in; }
inline Input minus_abs_of(Input in) { in.negative = true; return in; }
inline Input index(std::vector<int64_t> ne, int64_t below = 0) { return { GGML_TYPE_I32, std::move(ne), Role::data, false, false, below }; }

struct Case {
    std::string                                             name;
    std::vector<Input>                                      inputs;
    std::function<T(ggml_context *, const std::vector<T> &)> build;
    // In double precision, from the numbers as they are stored.
    std::function<V(const std::vector<V> &)>                reference;
    Kind                                                    kind;
    std::vector<Class>                                      classes;
};
extern std::vector<Case> cases;

const std::vector<Class> everything = { Class::ordinary, Class::cancelling, Class::near_mean, Class::sigma20, Class::wide, Class::tiny, Class::huge, Class::subnormal };
const std::vector<Class> long_ones  = { Class::long_rows, Class::long_cancelling };

inline void add(std::string name, std::vector<Input> inputs, std::function<T(ggml_context *, const std::vector<T> &)> build,
                std::function<V(const std::vector<V> &)> reference, Kind kind = Kind::each, std::vector<Class> classes = everything) {
    cases.push_back({ std::move(name), std::move(inputs), std::move(build), std::move(reference), kind, std::move(classes) });
}

void list_maps();
void list_rows();
void list_products();
void list_others();

} // namespace errors

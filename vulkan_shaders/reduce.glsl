// Sums and maxima over a workgroup of one dimension. All invocations must call them, so none may return before. There
// are two variants: SUBGROUP (subgroup arithmetic), and one with shared memory only. Constant 3 says that the workgroup
// is one subgroup, which needs no shared memory. `reduction` in policy/workgroups.rs selects variant, size and
// constant.
//
// If REDUCE is defined, there are also group_sums and group_maxima of arrays of that size, of which the first
// REDUCE_COUNT values are used if that is defined. They have two barriers for all values, and no loop around a loop:
// Mesa unrolls only the inner one, and then an array that the outer one indexes is in scratch memory.

layout(constant_id = 3) const bool ONE_SUBGROUP = false;

#if defined(REDUCE) && !defined(REDUCE_COUNT)
#define REDUCE_COUNT REDUCE
#endif

#ifdef SUBGROUP
#if defined(REDUCE) && REDUCE > 16
shared float reduce_room[16 * REDUCE]; // a value, or REDUCE values, for each subgroup
#else
shared float reduce_room[256];
#endif
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

#define GROUP_REDUCE(name, over_subgroup, join)                                \
    float name(float x) {                                                      \
        const float s = over_subgroup(x);                                      \
        if (ONE_SUBGROUP) { return s; }                                        \
        barrier();                                                             \
        if (subgroupElect()) { reduce_room[gl_SubgroupID] = s; }               \
        barrier();                                                             \
        float all = reduce_room[0];                                            \
        for (uint i = 1; i < gl_NumSubgroups; ++i) { all = join(all, reduce_room[i]); } \
        return all;                                                            \
    }
#define GROUP_REDUCE_ALL(name, over_subgroup, join)                            \
    void name(inout float x[REDUCE]) {                                         \
        [[unroll]] for (uint r = 0; r < REDUCE_COUNT; ++r) { x[r] = over_subgroup(x[r]); } \
        if (ONE_SUBGROUP) { return; }                                          \
        barrier();                                                             \
        if (subgroupElect()) {                                                 \
            [[unroll]] for (uint r = 0; r < REDUCE_COUNT; ++r) { reduce_room[gl_SubgroupID * REDUCE_COUNT + r] = x[r]; } \
        }                                                                      \
        barrier();                                                             \
        [[unroll]] for (uint r = 0; r < REDUCE_COUNT; ++r) { x[r] = reduce_room[r]; } \
        for (uint i = 1; i < gl_NumSubgroups; ++i) {                           \
            [[unroll]] for (uint r = 0; r < REDUCE_COUNT; ++r) { x[r] = join(x[r], reduce_room[i * REDUCE_COUNT + r]); } \
        }                                                                      \
    }
#else
shared float reduce_room[1024];

#define GROUP_REDUCE(name, over_subgroup, join)                                \
    float name(float x) {                                                      \
        const uint i = gl_LocalInvocationID.x;                                 \
        barrier();                                                             \
        reduce_room[i] = x;                                                    \
        barrier();                                                             \
        for (uint s = gl_WorkGroupSize.x / 2; s > 0; s /= 2) {                 \
            if (i < s) { reduce_room[i] = join(reduce_room[i], reduce_room[i + s]); } \
            barrier();                                                         \
        }                                                                      \
        return reduce_room[0];                                                 \
    }
// Groups have at most 1024 / REDUCE invocations.
#define GROUP_REDUCE_ALL(name, over_subgroup, join)                            \
    void name(inout float x[REDUCE]) {                                         \
        const uint i = gl_LocalInvocationID.x;                                 \
        const uint T = gl_WorkGroupSize.x;                                     \
        barrier();                                                             \
        [[unroll]] for (uint r = 0; r < REDUCE_COUNT; ++r) { reduce_room[r * T + i] = x[r]; } \
        barrier();                                                             \
        for (uint s = T / 2; s > 0; s /= 2) {                                  \
            if (i < s) {                                                       \
                [[unroll]] for (uint r = 0; r < REDUCE_COUNT; ++r) {           \
                    reduce_room[r * T + i] = join(reduce_room[r * T + i], reduce_room[r * T + i + s]); \
                }                                                              \
            }                                                                  \
            barrier();                                                         \
        }                                                                      \
        [[unroll]] for (uint r = 0; r < REDUCE_COUNT; ++r) { x[r] = reduce_room[r * T]; } \
    }
#endif

float sum_of(float a, float b) { return a + b; }
GROUP_REDUCE(group_sum, subgroupAdd, sum_of)
GROUP_REDUCE(group_max, subgroupMax, max)
#ifdef REDUCE
GROUP_REDUCE_ALL(group_sums, subgroupAdd, sum_of)
GROUP_REDUCE_ALL(group_maxima, subgroupMax, max)
#endif

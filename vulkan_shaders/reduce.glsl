// Sums and maxima over a workgroup of one dimension. All invocations must call them, so none may return before.
// There are two variants: SUBGROUP (subgroup arithmetic), and one with shared memory only. Constant 3 says that the workgroup is one
// subgroup, which needs no shared memory. `reduction` in tune.rs selects variant, size and constant.

layout(constant_id = 3) const bool ONE_SUBGROUP = false;

shared float reduce_room[1024];

#ifdef SUBGROUP
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
#else
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
#endif

float sum_of(float a, float b) { return a + b; }
GROUP_REDUCE(group_sum, subgroupAdd, sum_of)
GROUP_REDUCE(group_max, subgroupMax, max)

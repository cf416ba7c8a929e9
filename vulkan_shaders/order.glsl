// The order of elements for sorting and for maxima: zeros of both signs are equal, and NaN comes after all numbers.
// Define BEST_ROOM, the most invocations of a workgroup, for `group_best` too, which needs reduce.glsl.

// Greater for greater numbers; 0 for NaN. By bits, because drivers may compute as if there were no NaN, and flush small
// numbers to 0.
uint order_key(float x) {
    const uint u = floatBitsToUint(x);
    const uint size = u & 0x7fffffffu;
    if (size > 0x7f800000u) { return 0; }
    if (size == 0) { return 0x80000000u; }
    return u == size ? u | 0x80000000u : ~u;
}

#ifdef BEST_ROOM
const uint NONE = 0xffffffff;
shared uvec2 best_room[BEST_ROOM];

// The greater key x, or of equal ones the lesser y.
uvec2 better(uvec2 a, uvec2 b) { return b.x > a.x || (b.x == a.x && b.y < a.y) ? b : a; }

// The best of all invocations.
uvec2 group_best(uvec2 mine) {
#ifdef SUBGROUP
    const uint most = subgroupMax(mine.x);
    uvec2 best = uvec2(most, subgroupMin(mine.x == most ? mine.y : NONE));
    if (ONE_SUBGROUP) { return best; }
    barrier();
    if (subgroupElect()) { best_room[gl_SubgroupID] = best; }
    barrier();
    best = best_room[0];
    for (uint s = 1; s < gl_NumSubgroups; ++s) { best = better(best, best_room[s]); }
    return best;
#else
    const uint i = gl_LocalInvocationID.x;
    barrier();
    best_room[i] = mine;
    barrier();
    for (uint s = gl_WorkGroupSize.x / 2; s > 0; s /= 2) {
        if (i < s) { best_room[i] = better(best_room[i], best_room[i + s]); }
        barrier();
    }
    return best_room[0];
#endif
}
#endif

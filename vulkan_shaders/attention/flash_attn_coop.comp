#version 460
// Attention with cooperative matrices (KHR), for many queries: each of SUBGROUPS subgroups computes 16 of them with a
// part of the keys, in tiles of KEYS. Operands are F16, sums F32.
//
// The sums of values stay in matrices, which have no rows that could be scaled when a row's maximum changes. So
// exponents are relative to an older maximum, as long as the new one is not so much larger that F16 would not have room
// for them. Otherwise the matrices go through shared memory.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#define ALIGNED4
#include "quant.glsl"
#include "attention/attention.glsl"

// Size of the device's matrices. 16 is a multiple of each.
layout(constant_id = 3) const uint CM = 16;
layout(constant_id = 9) const uint CN = 16;
layout(constant_id = 10) const uint CK = 16;
layout(constant_id = 11) const uint SUBGROUP_SIZE = 32;
// All subgroups take the same branches: in Mesa's software driver, subgroupBarrier waits for the whole workgroup.
layout(constant_id = 12) const bool TOGETHER = false;

const uint SUBGROUPS = 4;
const uint T = SUBGROUPS * SUBGROUP_SIZE;
const uint ROWS = 16; // of a subgroup
const uint KEYS = 32;
// The maximum of a row may exceed the one in use by this exponent: e^8 is far below the range of F16.
const float SLACK = 8.0;

// Pitches of rows in shared memory: neighbouring rows are in different banks.
const uint K_PITCH = D + 8;
const uint V_PITCH = DV + 8;
const uint P_PITCH = KEYS + 8;
const uint S_PITCH = KEYS + 4;
const uint TILE_SIZE = KEYS * (K_PITCH + V_PITCH);
const uint QUERY_SIZE = SUBGROUPS * ROWS * K_PITCH;
// Keys and values, eight in an element. Before them, the queries.
shared uvec4 tile[(TILE_SIZE > QUERY_SIZE ? TILE_SIZE : QUERY_SIZE) / 8];
shared float16_t weights[SUBGROUPS * ROWS * P_PITCH];
shared float scores[SUBGROUPS * ROWS * S_PITCH]; // also a matrix of sums
shared float exchange[SUBGROUPS * SUBGROUP_SIZE];
shared float rescale[SUBGROUPS * ROWS];
shared uint live[SUBGROUPS]; // whether a subgroup has work in the tile
shared uint scaled[SUBGROUPS]; // TOGETHER: whether it scales its sums

// Invocations of a row, and rows of an invocation.
const uint LANES = SUBGROUP_SIZE > ROWS ? SUBGROUP_SIZE / ROWS : 1;
const uint TURNS = ROWS * LANES / SUBGROUP_SIZE;
const uint MS = ROWS / CM;

uvec4 packed(float x[8]) {
    uvec4 words;
    [[unroll]] for (uint j = 0; j < 4; ++j) { words[j] = packFloat2x16(f16vec2(x[2 * j], x[2 * j + 1])); }
    return words;
}

// Values 8*i to 8*i+7 of a row of keys or values.
uvec4 halves8(uint64_t row, uint i) {
#if FMT == FMT_F16
    if (ALIGNED) { return floatBitsToUint(F32x4s(at(row, i, 16)).v[0]); }
#endif
    float x[8];
    read8(row, i, x);
    return packed(x);
}

// Copies the keys or values from `first` on, of `pieces` times eight columns, into the tile.
void copy_rows(uint64_t rows, uint stride, uint pieces, uint to, uint pitch, uint first, uint last) {
#define COPY_PIECE(i) tile[to + i / pieces * pitch + i % pieces] = halves8(at(rows, uint64_t(min(first + i / pieces, last)) * stride, BYTES), i % pieces)
    if (BLOCK > 1 && pieces > 16) {
        // Queries and sums of long rows leave no registers for several pieces that are decoded at once.
        [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < KEYS * pieces; i += T) { COPY_PIECE(i); }
    } else {
        for (uint i = gl_LocalInvocationIndex; i < KEYS * pieces; i += T) { COPY_PIECE(i); }
    }
}

void main() {
    const uint t = gl_LocalInvocationIndex;
    const uint g = gl_SubgroupID;
    const uint lane = gl_SubgroupInvocationID;
    const Keys keys = my_keys();
    const uint64_t k = at(p.k, offset3(uvec3(0, keys.head, keys.batch), p.k_nb), BYTES);
    const uint64_t v = at(p.v, offset3(uvec3(0, keys.head, keys.batch), p.v_nb), BYTES);
    const uint first_query = gl_WorkGroupID.x * SUBGROUPS * ROWS;

    for (uint i = t; i < SUBGROUPS * ROWS * (D / 8); i += T) {
        const uint row = i / (D / 8);
        F32s q = F32s(at(query_row(keys, query(keys, first_query + row)), i % (D / 8), 32));
        float x[8];
        [[unroll]] for (uint j = 0; j < 8; ++j) { x[j] = q.v[j] * p.scale; }
        tile[row * (K_PITCH / 8) + i % (D / 8)] = packed(x);
    }
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, CM, CK, gl_MatrixUseA> mq[MS * (D / CK)];
    [[unroll]] for (uint i = 0; i < MS; ++i) {
        [[unroll]] for (uint c = 0; c < D / CK; ++c) {
            coopMatLoad(mq[i * (D / CK) + c], tile, (g * ROWS + i * CM) * (K_PITCH / 8) + c * (CK / 8), K_PITCH / 8, gl_CooperativeMatrixLayoutRowMajor);
        }
    }
    coopmat<float, gl_ScopeSubgroup, CM, CN, gl_MatrixUseAccumulator> sums[MS * (DV / CN)];
    [[unroll]] for (uint i = 0; i < MS * (DV / CN); ++i) {
        sums[i] = coopmat<float, gl_ScopeSubgroup, CM, CN, gl_MatrixUseAccumulator>(0.0);
    }
    // An invocation has these rows, with the keys of its lane.
    const uint my_keys_first = lane % LANES * (KEYS / LANES);
    uint64_t mask[TURNS];
    float bias[TURNS];
    float most[TURNS];
    float sum[TURNS];
    [[unroll]] for (uint n = 0; n < TURNS; ++n) {
        const Query q = query(keys, first_query + g * ROWS + n * (SUBGROUP_SIZE / LANES) + lane / LANES);
        mask[n] = MASK ? mask_row(keys, q) : 0;
        bias[n] = slope(q.head);
        most[n] = LOWEST;
        sum[n] = 0.0;
    }

    for (uint first = keys.begin; first < keys.end; first += KEYS) {
        // Tiles that the masks of all rows exclude are not read.
        bool wanted = !MASK;
        if (MASK) {
            [[unroll]] for (uint n = 0; n < TURNS; ++n) {
                [[unroll]] for (uint j = 0; j < KEYS / LANES; ++j) {
                    const uint key = min(first + my_keys_first + j, keys.end - 1);
                    wanted = wanted || !is_minus_infinity(float(F16s(mask[n]).v[key]));
                }
            }
        }
        const bool any = subgroupAny(wanted);
        if (subgroupElect()) { live[g] = any ? 1 : 0; }
        barrier(); // the last tile has been read
        bool work = false;
        [[unroll]] for (uint i = 0; i < SUBGROUPS; ++i) { work = work || live[i] != 0; }
        if (!work) {
            barrier(); // before `live` is written again
            continue;
        }
        copy_rows(k, p.k_nb.x, D / 8, 0, K_PITCH / 8, first, keys.end - 1);
        copy_rows(v, p.v_nb.x, DV / 8, KEYS * (K_PITCH / 8), V_PITCH / 8, first, keys.end - 1);
        barrier();
        if (!any && !TOGETHER) { continue; } // uniform in the subgroup; the barriers above are those of the next tile
        [[unroll]] for (uint j = 0; j < KEYS / CN; ++j) {
            coopmat<float, gl_ScopeSubgroup, CM, CN, gl_MatrixUseAccumulator> s[MS];
            [[unroll]] for (uint i = 0; i < MS; ++i) { s[i] = coopmat<float, gl_ScopeSubgroup, CM, CN, gl_MatrixUseAccumulator>(0.0); }
            [[unroll]] for (uint c = 0; c < D / CK; ++c) {
                coopmat<float16_t, gl_ScopeSubgroup, CK, CN, gl_MatrixUseB> mk;
                coopMatLoad(mk, tile, j * CN * (K_PITCH / 8) + c * (CK / 8), K_PITCH / 8, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0; i < MS; ++i) { s[i] = coopMatMulAdd(mq[i * (D / CK) + c], mk, s[i]); }
            }
            [[unroll]] for (uint i = 0; i < MS; ++i) {
                coopMatStore(s[i], scores, (g * ROWS + i * CM) * S_PITCH + j * CN, S_PITCH, gl_CooperativeMatrixLayoutRowMajor);
            }
        }
        subgroupBarrier();
        bool far = false;
        [[unroll]] for (uint n = 0; n < TURNS; ++n) {
            const uint row = g * ROWS + n * (SUBGROUP_SIZE / LANES) + lane / LANES;
            float top = LOWEST;
            float s[KEYS / LANES];
            [[unroll]] for (uint j = 0; j < KEYS / LANES; ++j) {
                const uint key = first + my_keys_first + j;
                s[j] = capped(scores[row * S_PITCH + my_keys_first + j]);
                bool masked = key >= keys.end;
                if (MASK) {
                    const float m = float(F16s(mask[n]).v[min(key, keys.end - 1)]);
                    masked = masked || is_minus_infinity(m);
                    s[j] += bias[n] * m;
                }
                if (masked) { s[j] = LOWEST; } // whatever the key is
                top = max(top, s[j]);
            }
            exchange[t] = top;
            subgroupBarrier();
            [[unroll]] for (uint i = 0; i < LANES; ++i) { top = max(top, exchange[t / LANES * LANES + i]); }
            float factor = 1.0;
            if (most[n] == LOWEST) {
                most[n] = top; // the sums are still 0
            } else if (top > most[n] + SLACK) {
                factor = exp(most[n] - top);
                most[n] = top;
                far = true;
            }
            sum[n] *= factor;
            [[unroll]] for (uint j = 0; j < KEYS / LANES; ++j) {
                const float16_t w = float16_t(s[j] == LOWEST ? 0.0 : exp(s[j] - most[n]));
                sum[n] += float(w);
                weights[row * P_PITCH + my_keys_first + j] = w;
            }
            if (lane % LANES == 0) { rescale[row] = factor; }
            subgroupBarrier(); // the maxima have been read
        }
        bool scales = subgroupAny(far);
        if (TOGETHER) {
            if (subgroupElect()) { scaled[g] = scales ? 1 : 0; }
            barrier();
            [[unroll]] for (uint i = 0; i < SUBGROUPS; ++i) { scales = scales || scaled[i] != 0; }
        }
        if (scales) {
            [[unroll]] for (uint i = 0; i < MS; ++i) {
                [[unroll]] for (uint c = 0; c < DV / CN; ++c) {
                    coopMatStore(sums[i * (DV / CN) + c], scores, (g * ROWS + i * CM) * S_PITCH, S_PITCH, gl_CooperativeMatrixLayoutRowMajor);
                    subgroupBarrier();
                    for (uint e = lane; e < CM * CN; e += SUBGROUP_SIZE) {
                        const uint row = g * ROWS + i * CM + e / CN;
                        scores[row * S_PITCH + e % CN] *= rescale[row];
                    }
                    subgroupBarrier();
                    coopMatLoad(sums[i * (DV / CN) + c], scores, (g * ROWS + i * CM) * S_PITCH, S_PITCH, gl_CooperativeMatrixLayoutRowMajor);
                    subgroupBarrier(); // the matrix has been read
                }
            }
        }
        [[unroll]] for (uint j = 0; j < KEYS / CK; ++j) {
            coopmat<float16_t, gl_ScopeSubgroup, CM, CK, gl_MatrixUseA> mw[MS];
            [[unroll]] for (uint i = 0; i < MS; ++i) {
                coopMatLoad(mw[i], weights, (g * ROWS + i * CM) * P_PITCH + j * CK, P_PITCH, gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint c = 0; c < DV / CN; ++c) {
                coopmat<float16_t, gl_ScopeSubgroup, CK, CN, gl_MatrixUseB> mv;
                coopMatLoad(mv, tile, KEYS * (K_PITCH / 8) + j * CK * (V_PITCH / 8) + c * (CN / 8), V_PITCH / 8, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint i = 0; i < MS; ++i) {
                    sums[i * (DV / CN) + c] = coopMatMulAdd(mw[i], mv, sums[i * (DV / CN) + c]);
                }
            }
        }
    }

    [[unroll]] for (uint n = 0; n < TURNS; ++n) {
        const uint row = g * ROWS + n * (SUBGROUP_SIZE / LANES) + lane / LANES;
        subgroupBarrier();
        exchange[t] = sum[n];
        subgroupBarrier();
        float all = 0.0;
        [[unroll]] for (uint i = 0; i < LANES; ++i) { all += exchange[t / LANES * LANES + i]; }
        if (lane % LANES == 0 && first_query + row < p.n_queries * GROUP) {
            const Query q = query(keys, first_query + row);
            rescale[row] = PARTIAL ? 1.0 : normal(q.head, most[n], all);
            if (PARTIAL) {
                F32s d = F32s(result_row(keys, q));
                d.v[DV] = most[n];
                d.v[DV + 1] = all;
            }
        }
    }
    [[unroll]] for (uint i = 0; i < MS; ++i) {
        [[unroll]] for (uint c = 0; c < DV / CN; ++c) {
            subgroupBarrier(); // the last matrix has been written
            coopMatStore(sums[i * (DV / CN) + c], scores, (g * ROWS + i * CM) * S_PITCH, S_PITCH, gl_CooperativeMatrixLayoutRowMajor);
            subgroupBarrier();
            for (uint e = lane; e < CM * CN; e += SUBGROUP_SIZE) {
                const uint row = g * ROWS + i * CM + e / CN;
                if (first_query + row < p.n_queries * GROUP) {
                    const Query q = query(keys, first_query + row);
                    F32s(result_row(keys, q)).v[c * CN + e % CN] = scores[row * S_PITCH + e % CN] * rescale[row];
                }
            }
        }
    }
}

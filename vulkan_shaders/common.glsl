// For all shaders: extensions, typed pointers, conversions, and the numbers of workgroups.
//
// Conventions. Shaders have no descriptors. Push constants (scalar layout, addresses first) have the addresses. Strides
// are in elements (in blocks for quantized formats) and fit into 32 bits. Products with strides are computed with 64
// bits (`at`). Specialization constants 0 to 2 are the size of the workgroup, and those of the shader start at 3. Types
// are specialization constants with the numbers of ggml_type, so that one module is enough for many types, and the
// driver removes unused branches.

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

// Arrays at an address. Indices have 32 bits.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F32s { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer F32x4s { vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer F16s { float16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer F16x4s { f16vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer U8s { uint8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer I8s { int8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer U16s { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32s { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer I32s { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer I64s { int64_t v[]; };

const uint F32 = 0;
const uint F16 = 1;
const uint I32 = 26;
const uint I64 = 27;
const uint BF16 = 30;
const uint F8 = 43; // E4M3

// Address of element `i` of an array of elements of `size` bytes.
uint64_t at(uint64_t base, uint64_t i, uint size) { return base + i * size; }

// i1 * s1 + i2 * s2 + i3 * s3 with 64 bits.
uint64_t offset3(uvec3 i, uvec3 s) {
    return uint64_t(i.x) * s.x + uint64_t(i.y) * s.y + uint64_t(i.z) * s.z;
}

// Coordinates 1 to 3 of row `r` of a tensor with `ne1`, `ne2` rows and matrices.
uvec3 row_coords(uint r, uint ne1, uint ne2) {
    const uint q = r / ne1;
    return uvec3(r - q * ne1, q % ne2, q / ne2);
}

// Number of the workgroup in dimensions y and z. The host splits long lists of rows over both (`Grid` in plan.rs).
uint group_yz() { return gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y; }
// Number of the workgroup in all three dimensions.
uint group_xyz() { return group_yz() * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

float bf16_to_f32(uint bits) { return uintBitsToFloat(bits << 16); }

// Rounds to nearest, ties to even. NaN remains NaN.
uint f32_to_bf16(float x) {
    const uint u = floatBitsToUint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
        return (u >> 16) | 64u;
    }
    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}

// E4M3: 4 exponent bits with bias 7, 3 fraction bits, no infinity. Avoids subnormal F32, which drivers may flush to 0.
float f8_to_f32(uint bits) {
    const uint m = bits & 127u;
    const float x = m < 8 ? float(m) * 0.001953125 : uintBitsToFloat((m << 20) + (120u << 23));
    return uintBitsToFloat((m == 127 ? 0x7fc00000u : floatBitsToUint(x)) | (bits & 128u) << 24);
}

// Rounds to nearest, ties to even, and clamps to 448. NaN remains NaN.
uint f32_to_f8(float x) {
    const uint u = floatBitsToUint(x) & 0x7fffffffu;
    if (u > 0x7f800000u) { return 127; }
    const uint sign = (floatBitsToUint(x) >> 24) & 128u;
    if (u < 0x3c800000u) { return sign | uint(roundEven(uintBitsToFloat(u) * 512.0)); }
    return sign | min(((u + 0x7ffffu + ((u >> 20) & 1u)) >> 20) - (120u << 3), 126u);
}

// Where maxima start, and the score of what a mask excludes. Drivers may compute as if there were no infinities, and
// the difference of two is NaN anyway: minus infinity is recognised by its bits where it is read.
const float LOWEST = -3.402823466e38;
const uint MINUS_INFINITY = 0xff800000u;
bool is_minus_infinity(float x) { return floatBitsToUint(x) == MINUS_INFINITY; }
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

uint type_size(uint type) {
    if (type == I64) { return 8; }
    if (type == F8) { return 1; }
    return type == F16 || type == BF16 ? 2 : 4;
}

// Element `i` of an array of a plain type, as a float. `type` is a constant.
float load(uint type, uint64_t base, uint i) {
    if (type == F16) { return float(F16s(base).v[i]); }
    if (type == BF16) { return bf16_to_f32(uint(U16s(base).v[i])); }
    if (type == I32) { return float(I32s(base).v[i]); }
    if (type == F8) { return f8_to_f32(uint(U8s(base).v[i])); }
    return F32s(base).v[i];
}

void store(uint type, uint64_t base, uint i, float x) {
    if (type == F16) { F16s(base).v[i] = float16_t(x); }
    else if (type == BF16) { U16s(base).v[i] = uint16_t(f32_to_bf16(x)); }
    else if (type == I32) { I32s(base).v[i] = int(x); }
    else if (type == F8) { U8s(base).v[i] = uint8_t(f32_to_f8(x)); }
    else { F32s(base).v[i] = x; }
}

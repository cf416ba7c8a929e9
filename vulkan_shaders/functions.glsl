// Functions of one number. `op` is a constant: a number of ggml_unary_op, or one of the numbers from 64 on.

const uint SQR = 64;
const uint SQRT = 65;
const uint LOG = 66;
const uint SIN = 67;
const uint COS = 68;
const uint CLAMP = 69; // param: minimum, maximum
const uint SCALE = 70; // param: factor, summand
const uint LEAKY_RELU = 71; // param: slope
const uint COPY = 72;
const uint FILL = 73; // param: value
const uint GATE_SIGMOID = 74; // of `gated`: no number of ggml_glu_op
const uint GATE_SOFTPLUS = 75;

bool is_infinite(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }

// x * sigmoid(x), without NaN for large arguments.
float silu(float x) { return x / (1.0 + exp(-x)); }

// tanh by exp, safe for large arguments.
float tanh_safe(float x) {
    const float e = exp(-2.0 * abs(x));
    const float t = abs(x) < 0.01 ? abs(x) * (1.0 - x * x / 3.0) : (1.0 - e) / (1.0 + e);
    return x < 0.0 ? -t : t;
}

// exp(x) - 1, by a series where the subtraction would cancel.
float expm1(float x) {
    if (abs(x) < 0.05) {
        return x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0)))));
    }
    return exp(x) - 1.0;
}

// Error function, Abramowitz and Stegun 7.1.26, with an error of at most 1.5e-7.
float erf_near(float x) {
    const float a = abs(x);
    const float t = 1.0 / (1.0 + 0.3275911 * a);
    const float poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    const float r = 1.0 - poly * exp(-a * a);
    return x < 0.0 ? -r : r;
}

// Zero far below zero, and so for minus infinity, for which the formula is NaN.
float gelu(float x) { return x < -10.0 ? 0.0 : 0.5 * x * (1.0 + tanh_safe(0.7978845608 * x * (1.0 + 0.044715 * x * x))); }
float gelu_quick(float x) { return x / (1.0 + exp(-1.702 * x)); }
float gelu_erf(float x) { return 0.5 * x * (1.0 + erf_near(x * 0.70710678118)); }
float hard_sigmoid(float x) { return clamp((x + 3.0) / 6.0, 0.0, 1.0); }

// NaN for NaN: functions of GLSL such as `max` may hide it, and comparisons do.
float unary(uint op, float x, vec4 param) {
    if (op != FILL && is_nan(x)) { return x; }
    switch (op) {
        case 0: return abs(x);
        case 1: return sign(x);
        case 2: return -x;
        case 3: return x > 0.0 ? 1.0 : 0.0;
        case 4: return tanh_safe(x);
        case 5: return x > 0.0 ? x : expm1(x);
        case 6: return max(x, 0.0);
        case 7: return 1.0 / (1.0 + exp(-x));
        case 8: return gelu(x);
        case 9: return gelu_quick(x);
        case 10: return silu(x);
        case 11: return x * hard_sigmoid(x);
        case 12: return hard_sigmoid(x);
        case 13: return exp(x);
        case 14: return expm1(x);
        case 15: return x > 20.0 ? x : log(1.0 + exp(x));
        case 16: return gelu_erf(x);
        case 17: return x > 0.0 ? param.y * x * x + param.z * x : (expm1(min(x, param.w)) - x) * param.x + param.z * x;
        case 18: return floor(x);
        case 19: return ceil(x);
        case 20: { // round, ties away from zero
            const float t = trunc(x);
            return abs(x - t) >= 0.5 ? t + sign(x) : t;
        }
        case 21: return trunc(x);
        case SQR: return x * x;
        case SQRT: return sqrt(x);
        case LOG: return log(x);
        // Drivers reduce angles without regard to infinity.
        case SIN: return is_infinite(x) ? uintBitsToFloat(0x7fc00000u) : sin(x);
        case COS: return is_infinite(x) ? uintBitsToFloat(0x7fc00000u) : cos(x);
        case CLAMP: {
            const float y = x < param.y ? x : param.y;
            return y > param.x ? y : param.x;
        }
        case SCALE: return x * param.x + param.y;
        case LEAKY_RELU: return max(x, 0.0) + param.x * min(x, 0.0);
        case FILL: return param.x;
        default: return x;
    }
}

// Gated functions by the number of ggml_glu_op: f(gate) * up; NaN if either is NaN. param: alpha, limit.
float gated(uint op, float gate, float up, vec2 param) {
    if (is_nan(gate)) { return gate; }
    if (is_nan(up)) { return up; }
    switch (op) {
        case 0: return gate > 0.0 ? gate * up : 0.0;
        case 1: return gelu(gate) * up;
        case 2: return silu(gate) * up;
        case 3: {
            const float x = min(gate, param.y);
            return x / (1.0 + exp(param.x * -x)) * (max(min(up, param.y), -param.y) + 1.0);
        }
        case 4: return gelu_erf(gate) * up;
        case 5: return gelu_quick(gate) * up;
        case GATE_SIGMOID: return up / (1.0 + exp(-gate));
        case GATE_SOFTPLUS: return (gate > 20.0 ? gate : log(1.0 + exp(gate))) * up;
        default: return silu(min(gate, param.y)) * max(min(up, param.y), -param.y);
    }
}

// Twice the value of a 4-bit float with two exponent bits and one fraction bit.
float fp4_doubled(uint q) {
    const uint m = q & 7u;
    const float x = m < 5 ? float(m) : m == 5 ? 6.0 : m == 6 ? 8.0 : 12.0;
    return (q & 8u) != 0 ? -x : x;
}

// Splits x into two parts of twelve bits each, so that products of parts are exact.
vec2 halves(float x) {
    precise const float c = x * 4097.0;
    precise const float high = c - (c - x);
    precise const float low = x - high;
    return vec2(high, low);
}

// a / b, correctly rounded. Division in drivers may be off by some ulps, and their fma() may round twice, so the
// remainder is computed from halves.
float divide(float a, float b) {
    precise const float q = a / b;
    precise const float p = q * b;
    const vec2 x = halves(q);
    const vec2 y = halves(b);
    precise const float e = ((x.x * y.x - p) + x.x * y.y + x.y * y.x) + x.y * y.y;
    precise const float rest = (a - p) - e;
    precise const float all = q + rest / b;
    return abs(q) < 1e30 && abs(b) < 1e30 ? all : q; // larger numbers overflow in halves()
}

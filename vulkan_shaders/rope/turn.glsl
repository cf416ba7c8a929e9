// Rotations of rotary position embedding.

// Cosine and sine for a pair whose angle is `angle` without scaling (YaRN: from extrapolation to interpolation between
// the pairs corr.x and corr.y).
vec2 turn_by(float angle, uint pair, float freq_scale, float ext_factor, float attn_factor, vec2 corr) {
    float theta = freq_scale * angle;
    float magnitude = attn_factor;
    if (ext_factor != 0.0) {
        const float y = (float(pair) - corr.x) / max(corr.y - corr.x, 0.001);
        const float mix_ = (1.0 - clamp(y, 0.0, 1.0)) * ext_factor;
        theta = theta * (1.0 - mix_) + angle * mix_;
        magnitude *= 1.0 - 0.1 * log(freq_scale);
    }
    return vec2(cos(theta), sin(theta)) * magnitude;
}

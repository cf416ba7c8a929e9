// What ggml 0.27 and 0.28 brought or changed: TOP_K_MASK, experts that are not chosen (an index of -1), rows of SCALE
// that are apart, batches of CONV_1D, and operations that the original's kernels now compute on layouts which earlier
// ones misread.
#pragma once

void recent_masks() {
    for (auto type : { GGML_TYPE_F32, GGML_TYPE_F16 }) {
        for (int l : { 0, 1, 2, 3 }) {
            const std::string at = layouts[l];
            const Shape       ne = { 70, 5, 3, 2 };
            add("TOP_K_MASK", type_name(type), at + ", picks", [=](Graph & g) { T m = lay(g, type, ne, l); return ggml_top_k_mask(g.c, m, g.index({ 9, 5, 3, 2 }, 70, true), nullptr, nullptr, nullptr); });
            add("TOP_K_MASK", type_name(type), at + ", picks with gaps", [=](Graph & g) { T m = lay(g, type, ne, l); return ggml_top_k_mask(g.c, m, g.index_with_gaps({ 9, 5, 3, 2 }, 70), nullptr, nullptr, nullptr); });
            add("TOP_K_MASK", type_name(type), at + ", scores", [=](Graph & g) {
                T m = lay(g, type, ne, l), k = g.index({ 9, 5, 3, 2 }, 70, true);
                return ggml_top_k_mask(g.c, m, k, g.mask(GGML_TYPE_F32, { 70, 5, 3, 2 }), nullptr, nullptr);
            });
            add("TOP_K_MASK", type_name(type), at + ", blocks", [=](Graph & g) {
                T m = lay(g, type, ne, l), k = g.index({ 4, 5, 3, 2 }, 10, true);
                return ggml_top_k_mask(g.c, m, k, nullptr, g.index_with_gaps({ 7, 10 }, 70), nullptr);
            });
            add("TOP_K_MASK", type_name(type), at + ", blocks, scores and more", [=](Graph & g) {
                T m = lay(g, type, ne, l), k = g.index({ 4, 5, 3, 2 }, 10, true), s = g.mask(GGML_TYPE_F32, { 10, 5, 3, 2 });
                T b = g.index({ 7, 10 }, 70, true);
                return ggml_top_k_mask(g.c, m, k, s, b, g.index_with_gaps({ 3, 5, 3, 2 }, 70));
            });
        }
    }
}

void recent_experts() {
    auto products = [](ggml_type type) {
        add("MUL_MAT_ID", type_name(type), "gaps, broadcast", [=](Graph & g) { T a = g.in(type, { 256, 6, 4 }); T b = g.f({ 256, 1, 9 }); return ggml_mul_mat_id(g.c, a, b, g.index_with_gaps({ 2, 9 }, 4)); });
        add("MUL_MAT_ID", type_name(type), "gaps, own rows", [=](Graph & g) { T a = g.in(type, { 256, 33, 8 }); T b = g.f({ 256, 3, 40 }); return ggml_mul_mat_id(g.c, a, b, g.index_with_gaps({ 3, 40 }, 8)); });
        add("MUL_MAT_ID", type_name(type), "gaps, one token", [=](Graph & g) { T a = g.in(type, { 256, 64, 8 }); T b = g.f({ 256, 1, 1 }); return ggml_mul_mat_id(g.c, a, b, g.index_with_gaps({ 6, 1 }, 8)); });
    };
    for (auto t : floats) { products(t); }
    for (auto t : weights) { products(t); }
    add("ADD_ID", "f32", "gaps", [=](Graph & g) { T a = g.f({ 32, 3, 25 }); T b = g.f({ 32, 8 }); return ggml_add_id(g.c, a, b, g.index_with_gaps({ 3, 25 }, 8)); });
}

void recent() {
    recent_masks();
    recent_experts();
    for (auto type : { GGML_TYPE_F16, GGML_TYPE_F32 }) {
        for (int64_t batch : { 2, 3 }) {
            add("CONV_1D", type_name(type), "batch " + std::to_string(batch), [=](Graph & g) { T a = g.in(type, { 3, 4, 5 }); return ggml_conv_1d(g.c, a, g.f({ 20, 4, batch }), 1, 1, 1); });
            add("CONV_1D", type_name(type), "by half, batch " + std::to_string(batch), [=](Graph & g) { T a = g.in(type, { 5, 4, 6 }); return ggml_conv_1d_ph(g.c, a, g.f({ 21, 4, batch }), 2, 1); });
        }
        add("GLU", type_name(type), "SWIGLU_OAI, views", [=](Graph & g) {
            T a = g.in(type, { 80, 5 }, -6, 6), b = g.in(type, { 80, 5 }, -6, 6);
            T x = ggml_view_2d(g.c, a, 35, 5, a->nb[1], 3 * a->nb[0]);
            return ggml_swiglu_oai(g.c, x, ggml_view_2d(g.c, b, 35, 5, b->nb[1], 40 * b->nb[0]), 1.702f, 3.0f);
        });
    }
    // Values near the ends of F8_E4M3's range, where rounding, overflow and the lack of infinities show.
    for (float scale : { 1e-3f, 0.02f, 20.0f, 500.0f, 1e5f }) {
        for (auto from : floats) {
            add("CPY", "f8_e4m3", std::string("from ") + type_name(from) + " up to " + std::to_string(scale), [=](Graph & g) { return ggml_cast(g.c, g.in(from, { 300, 3 }, -scale, scale), GGML_TYPE_F8_E4M3); });
        }
    }
    for (auto to : { GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F8_E4M3 }) {
        add("CPY", "f8_e4m3", std::string("to ") + type_name(to), [=](Graph & g) { return ggml_cast(g.c, g.in(GGML_TYPE_F8_E4M3, { 130, 5 }, -400, 400), to); });
    }
    add("ADD", "f8_e4m3", "with f32", [=](Graph & g) { T a = g.in(GGML_TYPE_F8_E4M3, { 256, 3 }, -9, 9); return ggml_add(g.c, a, g.f({ 256, 3 })); });
    add("FLASH_ATTN_EXT", "f8_e4m3", "keys only", [=](Graph & g) { T q = g.f({ 64, 5, 4 }); T k = g.in(GGML_TYPE_F8_E4M3, { 64, 33, 2 }); return ggml_flash_attn_ext(g.c, q, k, g.in(GGML_TYPE_F16, { 64, 33, 2 }), nullptr, 0.125f, 0, 0); });
    add("FLASH_ATTN_EXT", "f8_e4m3", "values only", [=](Graph & g) { T q = g.f({ 64, 5, 4 }); T k = g.in(GGML_TYPE_F16, { 64, 33, 2 }); return ggml_flash_attn_ext(g.c, q, k, g.in(GGML_TYPE_F8_E4M3, { 64, 33, 2 }), nullptr, 0.125f, 0, 0); });
}

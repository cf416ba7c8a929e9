// A host of whisper.cpp: encodes a made-up spectrum, decodes some tokens, prints the logits.
//
//   whisper MODEL [THREADS]
#include "whisper.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char ** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: whisper MODEL [THREADS]\n");
        return 2;
    }
    const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
    whisper_context_params params = whisper_context_default_params();
    params.flash_attn = argc > 3;
    whisper_context * ctx = whisper_init_from_file_with_params(argv[1], params);
    if (ctx == nullptr) {
        std::fprintf(stderr, "whisper: the model cannot be loaded\n");
        return 1;
    }
    const int n_len = 2 * whisper_model_n_audio_ctx(ctx), n_mel = whisper_model_n_mels(ctx);
    std::vector<float> mel((size_t) n_len * n_mel);
    for (size_t i = 0; i < mel.size(); i++) {
        mel[i] = std::sin(0.013f * i) * std::cos(0.37f * (i % 80));
    }
    std::vector<whisper_token> tokens;
    for (int i = 0; i < 12; i++) {
        tokens.push_back((i * 37 + 5) % whisper_n_vocab(ctx));
    }
    if (whisper_set_mel(ctx, mel.data(), n_len, n_mel) != 0 || whisper_encode(ctx, 0, threads) != 0 ||
        whisper_decode(ctx, tokens.data(), (int) tokens.size(), 0, threads) != 0) {
        std::fprintf(stderr, "whisper: no result\n");
        return 1;
    }
    for (int round = 0; round < 4; round++) { // the most likely token goes on; those of the last token are filled in
        const size_t  last   = round == 0 ? tokens.size() - 1 : 0;
        const float * logits = whisper_get_logits(ctx) + last * whisper_n_vocab(ctx);
        int           best   = 0;
        for (int i = 0; i < whisper_n_vocab(ctx); i++) {
            std::printf("%.9g\n", (double) logits[i]);
            best = logits[i] > logits[best] ? i : best;
        }
        const whisper_token next = best;
        if (whisper_decode(ctx, &next, 1, (int) tokens.size() + round, threads) != 0) {
            return 1;
        }
    }
    whisper_free(ctx);
    return 0;
}

"""llama-cpp-python as in programs of its users: python_host.py MODEL OUT PROMPT. For the section `python` of
scripts/test_hosts.py.

Writes the logits of every token of PROMPT to OUT, and prints a line of JSON: how many tokens, a completion at
temperature 0, and whether the ggml below is this library."""
import json
import sys

import numpy
import llama_cpp
from llama_cpp import llama_cpp as binding


def main():
    model, out, prompt = sys.argv[1:]
    host = llama_cpp.Llama(model_path=model, n_ctx=512, n_threads=2, n_threads_batch=2, logits_all=True, seed=1, verbose=False)
    tokens = host.tokenize(prompt.encode())
    host.eval(tokens)
    numpy.asarray(host.scores[:len(tokens)], dtype=numpy.float32).tofile(out)
    text = host.create_completion("Once upon a time", max_tokens=24, temperature=0)["choices"][0]["text"]
    print(json.dumps({"tokens": len(tokens), "text": text, "ours": hasattr(binding._lib, "ggml_rs_get_abi")}))


main()

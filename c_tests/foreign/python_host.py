"""llama-cpp-python as in programs of its users: python_host.py MODEL PROMPT. For the section `python` of
scripts/test_hosts.py, and for scripts/test_swaps.py.

Prints a line of JSON: how many tokens PROMPT has, every 13th of their logits, a completion at temperature 0, the
seconds that both took, the peak of memory in KiB, and whether the ggml below is this library."""
import json
import sys
import time

import llama_cpp
from llama_cpp import llama_cpp as binding

model, prompt = sys.argv[1:]
host = llama_cpp.Llama(model_path=model, n_ctx=512, n_threads=2, n_threads_batch=2, logits_all=True, seed=1, verbose=False)
tokens = host.tokenize(prompt.encode())
begin = time.time()
host.eval(tokens)
numbers = host.scores[:len(tokens)].ravel()[::13].tolist()
text = host.create_completion("Once upon a time", max_tokens=24, temperature=0)["choices"][0]["text"]
seconds = time.time() - begin
with open("/proc/self/status") as f: # getrusage counts the parent, too
    peak = int(f.read().partition("VmHWM:")[2].split()[0])
print(json.dumps({"tokens": len(tokens), "numbers": numbers, "text": text, "seconds": seconds, "peak": peak, "ours": hasattr(binding._lib, "ggml_rs_get_abi")}))

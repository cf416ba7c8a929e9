"""A llama-server as its users run it: server.py PROGRAM MODEL PROMPT. What it prints: see node.mjs; the numbers are the
highest logarithms of probabilities after each word of the prompt."""
import json
import os
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts"))
from peak import peak
from processes import free_port, running

program, model, prompt = sys.argv[1:]
url = f"http://127.0.0.1:{free_port()}"


def answer(path, **request):
    data = json.dumps(request).encode() if request else None
    with urllib.request.urlopen(urllib.request.Request(url + path, data, {"Content-Type": "application/json"}), timeout=300) as r:
        return json.load(r)


def ready():
    try:
        return answer("/health")["status"] == "ok"
    except (OSError, urllib.error.URLError):
        return False


command = [program, "-m", model, "--port", url.rsplit(":")[-1], "-t", "2", "-c", "512", "-np", "1", "-ngl", "0", "--no-webui"]
with running(command, os.devnull, ready, 300) as server:
    begin, words = time.time(), prompt.split()
    numbers = []
    for n in range(1, len(words) + 1):
        said = answer("/completion", prompt=" ".join(words[:n]), n_predict=1, temperature=0, n_probs=20)
        numbers += [p["logprob"] for p in said["completion_probabilities"][0]["top_logprobs"]]
    text = answer("/completion", prompt=prompt, n_predict=32, temperature=0)["content"]
    seconds = time.time() - begin
    most = peak(server.pid)
print(json.dumps({"numbers": numbers, "text": text, "seconds": seconds, "peak": most}))

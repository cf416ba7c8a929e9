"""llama-server under load: the same questions one after the other, and eight at a time. For scripts/test_hosts.py."""
import concurrent.futures
import contextlib
import json
import os
import time
import urllib.request

import processes

QUESTIONS = 40
AT_ONCE = 8
TOKENS = 24
START_TIMEOUT = 120


def questions():
    """Of different lengths, so that their tokens meet in ever other batches."""
    words = "the cat sits outside and a man plays his guitar while dogs watch the moon over quiet gardens".split()
    return [f"Tell me about {' '.join(words[(i + k) % len(words)] for k in range(2 + i % 11))}" for i in range(QUESTIONS)]


def get(port, path, body=None, timeout=300):
    """What the server answers under `path`."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body and json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=timeout) as answer:
        return answer.read().decode()


def complete(port, question, tokens=TOKENS, **more):
    """An answer at temperature 0, which depends on the question alone: no cache of earlier questions."""
    body = {"prompt": question, "n_predict": tokens, "temperature": 0, "seed": 1, "cache_prompt": False, "return_tokens": True, "ignore_eos": True}
    return json.loads(get(port, "/completion", body | more))


def log_of(t, side):
    """What the last server on that side said."""
    return os.path.join(t.models, f"server-{side}.log")


@contextlib.contextmanager
def server(t, side, model, *arguments, context=256, environment=None):
    """A server on a port of its own, with room for `context` tokens of each question; ends with the block. Gives the
    port, or None if it does not start."""
    path, port = t.path("llama-server"), processes.free_port()
    command = [path, "-m", model, "--port", str(port), "-np", str(AT_ONCE), "-c", str(AT_ONCE * context), "-t", "2", "--no-webui", *arguments]

    def ready():
        with contextlib.suppress(OSError):
            return get(port, "/health", timeout=5)

    with processes.running(command, log_of(t, side), ready, START_TIMEOUT, env=t.environment(side, path, **(environment or {}))) as process:
        if not ready():
            with open(log_of(t, side), errors="replace") as f:
                t.check(False, f"llama-server on {side} starts", " | ".join(f.read().splitlines()[-4:])[-500:])
            yield None
            return
        yield port
        t.check(process.poll() is None, f"llama-server on {side} still runs after all questions", f"status {process.poll()}")


def answers(t, side, model, *arguments):
    """Answers one by one, answers to eight questions at a time, and the seconds of each; None when the server fails."""
    asked, times = questions(), []
    with server(t, side, model, *arguments) as port:
        if port is None:
            return None
        found = []
        for workers in (1, AT_ONCE):
            begin = time.time()
            try:
                with concurrent.futures.ThreadPoolExecutor(workers) as pool:
                    found.append(list(pool.map(lambda q: complete(port, q)["tokens"], asked)))
            except (OSError, ValueError, KeyError) as e:
                t.check(False, f"llama-server on {side} answers {workers} at a time", str(e))
                return None
            times.append(time.time() - begin)
    return found[0], found[1], times


def load(t, kind):
    """Every question is answered in full at any load. Reports how many answers stay the same;
    scripts/test_invariance.py compares them number by number."""
    model = t.quantized("original", kind)
    for side in t.libs:
        got = model and answers(t, side, model)
        if not got:
            continue
        alone, together, (slow, fast) = got
        full = sum(len(a) == TOKENS for a in alone + together)
        same = sum(a == b for a, b in zip(alone, together))
        t.check(full == 2 * QUESTIONS, f"llama-server on {side}, {kind}: {QUESTIONS} questions, one at a time and {AT_ONCE} at a time, temperature 0",
                f"{full} of {2 * QUESTIONS} answers whole, {same} of {QUESTIONS} the same at both loads, {slow:.1f} s and {fast:.1f} s")

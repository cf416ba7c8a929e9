"""pywhispercpp as in programs of its users: whisper.py MODEL. What it prints: see node.mjs."""
import json
import math
import sys
import time

import _pywhispercpp as binding
import numpy
from peak import peak
from pywhispercpp.model import Model

host = Model(sys.argv[1], n_threads=2, print_progress=False, redirect_whispercpp_logs_to=None)
noise = numpy.random.default_rng(1).standard_normal(48000)
sound = (0.1 * numpy.sin(2 * numpy.pi * 440 * numpy.arange(48000) / 16000) + 0.01 * noise).astype(numpy.float32)
begin = time.time()
text = [s.text for s in host.transcribe(sound, language="en", temperature=0.0, temperature_inc=0.0, single_segment=True)]
seconds = time.time() - begin
tokens = [(s, t) for s in range(len(text)) for t in range(binding.whisper_full_n_tokens(host._ctx, s))]
numbers = [math.log(binding.whisper_full_get_token_p(host._ctx, s, t)) for s, t in tokens]
print(json.dumps({"numbers": numbers, "text": text, "seconds": seconds, "peak": peak()}))

"""stable-diffusion-cpp-python enlarges a picture: diffusion.py MODEL. What it prints: see node.mjs; the numbers are
the picture's, from 0 to 1."""
import json
import sys
import time

import numpy
from PIL import Image
from peak import peak
from stable_diffusion_cpp import StableDiffusion

host = StableDiffusion(upscaler_path=sys.argv[1], n_threads=2, verbose=False)
levels = numpy.random.default_rng(1).integers(0, 256, (28, 40, 3), dtype=numpy.uint8)
begin = time.time()
picture = host.upscale(Image.fromarray(levels))[0]
seconds = time.time() - begin
numbers = (numpy.asarray(picture.convert("RGB")) / 255).ravel().tolist()
print(json.dumps({"numbers": numbers, "text": f"{picture.mode} {picture.size}", "seconds": seconds, "peak": peak()}))

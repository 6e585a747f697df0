# SPDX-License-Identifier: Apache-2.0
"""The models that tests and benchmarks run, with seeded inputs of the shapes that bench and tests share."""
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from fetch_models import cache_folder  # noqa: E402


def _uniform(*shape):
    return lambda r: (r.random(shape) * 2 - 1).astype(np.float32)


def _integers(high, dtype, *shape):
    return lambda r: r.integers(0, high, shape).astype(dtype)


# name: {input: how to make it}
MODELS = {
    "ocr_det": {"x": _uniform(1, 3, 640, 640)},
    "ocr_rec": {"x": _uniform(1, 3, 48, 320)},
    "ocr_cls": {"x": _uniform(1, 3, 48, 192)},
    "open_nsfw": {"input_0": _uniform(1, 224, 224, 3)},
    "basic_pitch": {"serving_default_input_2:0": _uniform(1, 43844, 1)},
    "magika": {"bytes": _integers(257, np.int32, 1, 2048)},
    "silero_vad_16k": None,  # static: every input as the model declares it
    "resnet50": {"x": _uniform(1, 3, 224, 224)},
    "mobilenet_v2": {"x": _uniform(1, 3, 224, 224)},
    "bert_base": {"input_ids": _integers(30522, np.int64, 1, 128), "attention_mask": lambda r: np.ones((1, 128), np.int64),
                  "token_type_ids": _integers(2, np.int64, 1, 128)},
}


def path_of(name):
    return cache_folder() / f"{name}.onnx"


def inputs_of(name, session):
    """Seeded arrays for a model; `session` is ONNX Runtime's, for the declared inputs of a static model."""
    random = np.random.default_rng(7)
    if MODELS[name] is not None:
        return {k: make(random) for k, make in MODELS[name].items()}
    made = {}
    for value in session.get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in value.shape]
        made[value.name] = np.array(16000, np.int64).reshape(shape) if "int64" in value.type else (random.random(shape) * 2 - 1).astype(np.float32)
    return made


def shapes_of(inputs):
    """`--input-shapes` for arrays."""
    return [f"{name}:[{','.join(map(str, a.shape))}]" for name, a in inputs.items()]

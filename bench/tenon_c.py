# SPDX-License-Identifier: Apache-2.0
"""The run time's C interface (include/tenon/runtime.h) from Python, as far as the benchmarks need it."""
import ctypes
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
_DTYPES = (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.uint16, np.float32, np.float64)


class _TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("bytes", ctypes.c_size_t)]


def _library():
    library = ctypes.CDLL(str(ROOT / "build/lib/libtenon_runtime.so"))
    library.tenon_last_error.restype = ctypes.c_char_p
    for name in ("tenon_input_count", "tenon_output_count"):
        getattr(library, name).restype = ctypes.c_size_t
        getattr(library, name).argtypes = [ctypes.c_void_p]
    for name in ("tenon_input", "tenon_output"):
        getattr(library, name).restype = _TensorInfo
        getattr(library, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.tenon_load.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
    library.tenon_session_create.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)]
    library.tenon_bind_input.argtypes = library.tenon_bind_output.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]
    library.tenon_run.argtypes = [ctypes.c_void_p]
    library.tenon_session_free.argtypes = library.tenon_release.argtypes = [ctypes.c_void_p]
    return library


class Session:
    """An artifact with its inputs bound; `run()` runs it once, `outputs` holds the results by name."""

    def __init__(self, path, inputs, threads=1):
        self._library = _library()
        self._executable, self._session = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self._library.tenon_load(str(path).encode(), ctypes.byref(self._executable)))
        self._check(self._library.tenon_session_create(self._executable, threads, ctypes.byref(self._session)))
        self._kept, self.outputs = [], {}
        for i in range(self._library.tenon_input_count(self._executable)):
            info = self._library.tenon_input(self._executable, i)
            array = np.ascontiguousarray(inputs[info.name.decode()])
            self._kept.append(array)
            self._check(self._library.tenon_bind_input(self._session, i, array.ctypes.data, array.nbytes))
        for i in range(self._library.tenon_output_count(self._executable)):
            info = self._library.tenon_output(self._executable, i)
            array = np.empty([info.shape[k] for k in range(info.rank)], _DTYPES[info.dtype])
            self.outputs[info.name.decode()] = array
            self._check(self._library.tenon_bind_output(self._session, i, array.ctypes.data, array.nbytes))

    def run(self):
        self._check(self._library.tenon_run(self._session))

    def _check(self, status):
        if status:
            raise RuntimeError(self._library.tenon_last_error().decode())

    def __del__(self):
        self._library.tenon_session_free(self._session)
        self._library.tenon_release(self._executable)

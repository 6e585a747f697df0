# SPDX-License-Identifier: Apache-2.0
"""One-node ONNX models that set every attribute of every operator to each of its meanings: `CASES`, made by `add`."""
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ANY = 99
RANDOM = np.random.default_rng(7)


@dataclass
class K:
    """An input that is an initializer of the model."""
    array: np.ndarray


@dataclass
class Case:
    op: str
    inputs: list  # arrays fed at run time, K arrays, or None for one left out
    attrs: dict
    outputs: int
    since: int  # the case holds for the operator's versions from here
    until: int  # to here
    rtol: float
    numpy: object  # computes the outputs, where neither ONNX Runtime nor ONNX's reference does so as ONNX says; or None
    prefer: str  # "onnx": ONNX's reference, where ONNX Runtime has another opinion


CASES = []


def add(op, *inputs, since=1, until=ANY, outputs=1, rtol=1e-5, numpy=None, prefer="onnxruntime", **attrs):
    CASES.append(Case(op, list(inputs), attrs, outputs, since, until, rtol, numpy, prefer))


def f(*shape, low=-2.0, high=2.0, dtype=np.float32):
    return RANDOM.uniform(low, high, shape).astype(dtype)


def i(*shape, low=-9, high=9, dtype=np.int64):
    return RANDOM.integers(low, high, shape, dtype=dtype)


def b(*shape):
    return RANDOM.integers(0, 2, shape).astype(bool)


def k(*values, dtype=np.int64):
    return K(np.array(values, dtype))


def scalar(value, dtype=np.int64):
    return K(np.array(value, dtype))


X = f(2, 3, 4, 5)


def elementwise():
    for op in ("Abs Atan Ceil Cos Elu Erf Exp Floor HardSigmoid HardSwish Identity IsNaN LeakyRelu Mish Neg Relu Round Selu Sigmoid Sign Sin "
               "Softplus Softsign Tan Tanh ThresholdedRelu Celu Shrink Gelu Cosh Sinh Asinh Swish IsInf").split():
        add(op, X)
    for op, low, high in (("Acos", -1, 1), ("Asin", -1, 1), ("Atanh", -.9, .9), ("Acosh", 1, 5), ("Log", .1, 5), ("Sqrt", 0, 5), ("Reciprocal", .5, 3)):
        add(op, f(3, 7, low=low, high=high))
    add("Not", b(3, 4))
    add("BitwiseNot", i(3, 4, dtype=np.int32))
    for op in ("LeakyRelu", "Elu", "Celu", "ThresholdedRelu", "Swish"):
        add(op, X, alpha=0.6)
    add("Selu", X, alpha=2.0, gamma=0.75)
    add("HardSigmoid", X, alpha=0.5, beta=0.25)
    add("Shrink", X, bias=0.75, lambd=1.25)
    add("Shrink", i(3, 4, dtype=np.int32), bias=1.0, lambd=2.0)
    for form in ("none", "tanh"):
        add("Gelu", X, approximate=form)
    infinite = np.array([1, np.inf, -np.inf, np.nan], np.float32)
    for positive, negative in ((0, 1), (1, 0), (0, 0)):
        add("IsInf", infinite, detect_positive=positive, detect_negative=negative)
    add("IsNaN", infinite)
    for op in ("Add", "Sub", "Mul", "Div", "Pow", "PRelu"):
        add(op, f(2, 3, 4, low=.5), f(3, 1, low=.5))
    for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
        add(op, i(2, 3, 4, dtype=np.int32), i(4, dtype=np.int32), since=9 if op in ("Greater", "Less") else 1)
        add(op, f(2, 3, 4), f(2, 1, 4), since=11 if op == "Equal" else 1)
    add("Equal", b(3, 4), b(4))
    for op in ("And", "Or", "Xor"):
        add(op, b(2, 3, 4), b(3, 1))
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        add(op, i(2, 3, 4, dtype=np.int16), i(3, 1, dtype=np.int16))
    for direction in ("LEFT", "RIGHT"):
        for dtype in (np.uint8, np.uint32, np.uint64):
            add("BitShift", i(3, 4, low=0, dtype=dtype), i(4, low=0, high=4, dtype=dtype), direction=direction)
    add("Pow", f(3, 4, low=.5), i(4, low=0, high=4), since=12)
    add("Pow", i(3, 4, dtype=np.int32), i(4, low=0, high=4, dtype=np.int32), since=12)
    add("Mod", i(3, 4), i(3, 4, low=1), fmod=0)
    add("Mod", i(3, 4), i(3, 4, low=-9, high=-1), fmod=1)
    add("Mod", f(3, 4), f(3, 4, low=.5), fmod=1)
    for op in ("Max", "Min", "Sum", "Mean"):
        add(op, f(3, 4))
        add(op, f(3, 4), f(3, 4), f(3, 4))
        add(op, f(2, 3, 4), f(4), f(3, 1), since=8)
    add("Max", i(3, 4), i(4), since=12)
    add("Min", i(3, 4, dtype=np.uint8, low=0), i(4, dtype=np.uint8, low=0), since=12)
    add("Where", b(3, 1), f(3, 4), f(4))
    add("Clip", X, min=-0.5, max=0.75, until=10)
    add("Clip", X, min=-0.5, until=10)
    add("Clip", X, max=0.5, until=10)
    add("Clip", X, until=10)
    low, high = scalar(-0.5, np.float32), scalar(0.75, np.float32)
    for bounds in ((low, high), (low,), (None, high), ()):
        add("Clip", X, *bounds, since=11)
    add("Clip", i(3, 4, dtype=np.int32), np.array(-3, np.int32), np.array(4, np.int32), since=12)
    for to in (TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL):
        add("Cast", f(3, 4, low=0), to=to)
    add("Cast", i(3, 4), to=TensorProto.FLOAT)
    add("Cast", f(3, 4), to=TensorProto.INT32, saturate=1, since=19)
    add("CastLike", f(3, 4), i(1, dtype=np.int32))
    add("CastLike", f(3, 4), i(1), saturate=1, since=19)
    add("Dropout", X)
    add("Dropout", X, ratio=0.25, until=11)
    add("Dropout", X, scalar(0.25, np.float32), since=12, seed=3)
    add("Dropout", X, outputs=2, since=12)


def shapes():
    for axis in range(4):
        add("Flatten", X, axis=axis)
    add("Flatten", X, axis=4)
    add("Flatten", X, axis=-2, since=11)
    add("Reshape", X, k(0, -1, 5))
    add("Reshape", f(0, 3), k(3, 0), allowzero=1, since=14)
    add("Reshape", X, k(6, 20), allowzero=0, since=14)
    add("Transpose", X)
    add("Transpose", X, perm=[2, 0, 3, 1])
    one = f(1, 3, 1, 4)
    for axes in ([0], [0, 2]):
        add("Squeeze", one, axes=axes, until=12)
        add("Squeeze", one, k(*axes), since=13)
        add("Unsqueeze", f(3, 4), axes=axes, until=12)
        add("Unsqueeze", f(3, 4), k(*axes), since=13)
    add("Squeeze", one)
    add("Squeeze", one, axes=[-2], since=11, until=12)
    add("Squeeze", one, k(-2), since=13)
    add("Unsqueeze", f(3, 4), axes=[-1], since=11, until=12)
    add("Unsqueeze", f(3, 4), k(-1, 0), since=13)
    for axis in (0, 2):
        add("Concat", f(2, 3, 4), f(2, 3, 4), f(2, 3, 4), axis=axis)
    add("Concat", f(2, 3), f(2, 4), axis=-1, since=11)
    add("Split", f(6, 4), outputs=3, until=17)
    add("Split", f(6, 4), outputs=2, axis=1, split=[1, 3], until=12)
    add("Split", f(6, 4), outputs=2, axis=-1, split=[1, 3], since=11, until=12)
    add("Split", f(6, 4), k(1, 3), outputs=2, axis=1, since=13)
    add("Split", f(7, 4), outputs=3, num_outputs=3, since=18)
    add("Slice", X, starts=[1, -3], ends=[3, 1000], axes=[1, 3], until=9)
    add("Slice", X, starts=[0, 1], ends=[-1, 3], until=9)
    add("Slice", X, k(1, -3), k(3, 1000), k(1, 3), since=10)
    add("Slice", X, k(0, 1), k(-1, 3), since=10)
    add("Slice", X, k(4, 0), k(-100, 5), k(-1, 2), k(-2, 3), since=11)
    add("Tile", f(2, 3), k(2, 3))
    add("Expand", f(3, 1), k(2, 1, 4))
    add("Shape", X)
    for start, end in ((1, None), (-2, None), (1, 3), (0, -1), (-9, 9), (3, 1)):
        add("Shape", X, since=15, start=start, **({} if end is None else {"end": end}))
    add("Size", X)
    for value in (np.array([2.5], np.float32), np.array([3], np.int32), np.array([True])):
        add("ConstantOfShape", k(2, 3), value=numpy_helper.from_array(value))
    add("ConstantOfShape", k(2, 3))
    add("Constant", value=numpy_helper.from_array(f(2, 3)))
    add("Constant", value_int=3, since=12)
    add("Constant", value_ints=[3, -4], since=12)
    add("Constant", value_float=2.5, since=12)
    add("Constant", value_floats=[2.5, -1.5], since=12)
    add("EyeLike", f(3, 4))
    for diagonal in (-1, 2, 9):
        add("EyeLike", f(3, 4), k=diagonal)
    add("EyeLike", f(3, 4), dtype=TensorProto.INT32, k=1)
    add("Range", scalar(1), scalar(9), scalar(3))
    add("Range", scalar(2.5, np.float32), scalar(-1, np.float32), scalar(-.5, np.float32))
    add("Trilu", f(2, 4, 5))
    for upper in (0, 1):
        for diagonal in (-1, 0, 2):
            add("Trilu", f(2, 4, 5), scalar(diagonal), upper=upper)
    add("SpaceToDepth", f(1, 2, 4, 6), blocksize=2)
    add("DepthToSpace", f(1, 8, 2, 3), blocksize=2)
    for mode in ("DCR", "CRD"):
        add("DepthToSpace", f(1, 8, 2, 3), blocksize=2, mode=mode, since=11)
    x = f(2, 3, 4)
    for mode in ("constant", "reflect", "edge"):
        add("Pad", x, pads=[0, 1, 2, 1, 0, 1], mode=mode, until=10)
        add("Pad", x, k(0, 1, 2, 1, 0, 1), mode=mode, since=11)
    add("Pad", x, pads=[0, 1, 0, 0, 2, 0], value=1.5, until=10)
    add("Pad", x, pads=[0, 0, 0, 0, -1, 0], until=10)
    add("Pad", x, k(0, 1, 0, 0, 2, 0), scalar(1.5, np.float32), since=11)
    add("Pad", x, k(0, 0, -1, 0, 0, 0), since=11)
    add("Pad", x, k(2, 1), scalar(0.5, np.float32), k(-1), since=18)
    add("Pad", x, k(1, 2), None, k(1), mode="wrap", since=19)
    add("CenterCropPad", f(4, 7), k(5, 4))
    add("CenterCropPad", f(4, 7, 3), k(6, 5), axes=[1, -1])
    add("ReverseSequence", f(4, 3, 2), K(np.array([1, 4, 2])), time_axis=0, batch_axis=1)
    add("ReverseSequence", f(3, 4, 2), np.array([1, 4, 2]), time_axis=1, batch_axis=0)


def indices():
    for axis in (0, 1):
        add("Gather", f(4, 5), i(2, 3, low=0, high=4), axis=axis)
    add("Gather", f(4, 5), i(3, low=-4, high=4, dtype=np.int32), axis=-1, since=11)
    add("Gather", f(4, 5), np.array(2))
    for axis in (0, 1, -1):
        add("GatherElements", f(4, 5), i(4, 5, low=-4, high=4), axis=axis)
    add("GatherND", f(3, 4, 5), i(2, 2, low=0, high=3))
    add("GatherND", f(3, 4, 5), i(3, 2, 1, low=-4, high=4), batch_dims=1, since=12)
    for op in ("Scatter", "ScatterElements"):
        add(op, f(4, 5), np.array([[0, 2, 1]]), f(1, 3))
        add(op, f(4, 5), np.array([[0, 2], [1, 3]]), f(2, 2), axis=1)
    add("ScatterElements", f(4, 5), np.array([[0, -1]]), f(1, 2), axis=-1)
    add("ScatterND", f(4, 5), np.array([[2], [0]]), f(2, 5))
    for since, names in ((16, ("none", "add", "mul")), (18, ("max", "min"))):
        for reduction in names:
            add("ScatterElements", f(4, 5), np.array([[1, 1], [1, 3]]) if reduction != "none" else np.array([[1, 2], [2, 3]]), f(2, 2),
                axis=1, reduction=reduction, since=since)
            add("ScatterND", f(4, 5), np.array([[2], [2]]) if reduction != "none" else np.array([[2], [1]]), f(2, 5), reduction=reduction,
                since=since)
    values = np.array([-1.5, 2.5], np.float32)
    for axis in (-1, 0, 1):
        add("OneHot", i(3, 2, low=-5, high=5), scalar(5), values, axis=axis)
    add("OneHot", f(3, low=0, high=4).round(), scalar(5.0, np.float32), i(2))
    add("Compress", f(3, 4), K(np.array([True, False, True])), axis=0)
    add("Compress", f(3, 4), K(np.array([False, True, True])), axis=-1, since=11)
    add("Compress", f(3, 4), K(np.array([False, True, True, False, True])))
    add("NonZero", K(np.array([[1, 0, 2], [0, 0, 3]], np.float32)))
    x = f(3, 6)
    add("TopK", x, k=2, outputs=2, until=9)
    add("TopK", x, k=2, axis=0, outputs=2, until=9)
    add("TopK", x, k(2), outputs=2, since=10)
    for largest in (0, 1):
        add("TopK", x, k(3), axis=0, largest=largest, sorted=1, outputs=2, since=11)
    for axis in (0, 1, -1):
        for exclusive, reverse in ((0, 0), (1, 0), (0, 1), (1, 1)):
            add("CumSum", x, scalar(axis), exclusive=exclusive, reverse=reverse)
    for op in ("ArgMax", "ArgMin"):
        ties = i(3, 5, low=0, high=3).astype(np.float32)
        for axis in (0, 1):
            for keepdims in (0, 1):
                add(op, ties, axis=axis, keepdims=keepdims)
        add(op, ties, axis=-1, since=11)
        add(op, ties, axis=1, select_last_index=1, since=12)
        add(op, ties, axis=1, select_last_index=0, since=12)


REDUCTIONS = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare".split()


def reductions():
    positive, signed = f(2, 3, 4, low=0.25), f(2, 3, 4)
    for op in REDUCTIONS:
        x = positive if op == "ReduceLogSum" else signed
        last = 12 if op == "ReduceSum" else 17
        add(op, x)
        add(op, x, keepdims=0)
        for axes in ([1], [0, 2]):
            for keepdims in (0, 1):
                add(op, x, axes=axes, keepdims=keepdims, until=last)
                add(op, x, k(*axes), keepdims=keepdims, since=last + 1)
        add(op, x, axes=[-1], since=11, until=last)
        add(op, x, k(-1, 0), since=last + 1)
        add(op, x, noop_with_empty_axes=1, since=last + 1)
        add(op, x, noop_with_empty_axes=0, since=last + 1)
        add(op, x, K(np.array([], np.int64)), noop_with_empty_axes=1, since=last + 1)
    for op in ("ReduceMax", "ReduceMin"):
        add(op, b(3, 4), k(1), since=20)
        add(op, i(3, 4, dtype=np.int8), k(1), since=18)
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        add(op, X)
        for axis in (0, 1, 2):
            add(op, X, axis=axis)
        add(op, X, axis=-2, since=11)
    for p in (1, 2):
        for axis in (0, 1, -1):
            add("LpNormalization", f(3, 4), p=p, axis=axis)
    add("LpNormalization", f(3, 4))


def products():
    add("MatMul", f(3, 4), f(4, 5))
    add("MatMul", f(2, 1, 3, 4), f(5, 4, 2))
    add("MatMul", f(4), f(2, 4, 5))
    add("MatMul", f(2, 3, 4), f(4))
    add("MatMul", f(4), f(4))
    add("Gemm", f(3, 4), f(4, 5), f(5))
    for trans_a in (0, 1):
        for trans_b in (0, 1):
            add("Gemm", f(*((4, 3) if trans_a else (3, 4))), f(*((5, 4) if trans_b else (4, 5))), f(3, 1), transA=trans_a, transB=trans_b, alpha=0.5,
                beta=2.0)
    add("Gemm", f(3, 4), f(4, 5), since=11)
    add("Gemm", f(3, 4), f(4, 5), f(5), beta=0.0)
    u8 = lambda *shape: i(*shape, low=0, high=255, dtype=np.uint8)  # noqa: E731
    add("MatMulInteger", u8(3, 4), u8(4, 5))
    add("MatMulInteger", u8(3, 4), u8(4, 5), np.array(7, np.uint8), np.array(9, np.uint8))
    add("MatMulInteger", u8(3, 4), i(4, 5, dtype=np.int8), np.array(7, np.uint8))
    add("QLinearMatMul", u8(3, 4), scalar(.02, np.float32), scalar(120, np.uint8), u8(4, 5), scalar(.03, np.float32), scalar(110, np.uint8),
        scalar(.05, np.float32), scalar(130, np.uint8))
    for equation, *inputs in (("ij,jk->ik", f(3, 4), f(4, 5)), ("bij,bjk", f(2, 3, 4), f(2, 4, 5)), ("ii->i", f(4, 4)), ("ij->ji", f(3, 4)),
                              ("...ij,...jk->...ik", f(2, 3, 4), f(2, 4, 5)), ("i,j->ij", f(3), f(4)), ("ij->", f(3, 4)),
                              (" i j , j ", f(3, 4), f(4)), ("bij,kj,bl->bikl", f(2, 3, 4), f(5, 4), f(2, 3)), ("...ii->...i", f(2, 3, 3))):
        add("Einsum", *inputs, equation=equation)
    add("Det", f(3, 3))
    add("Det", f(2, 4, 4))


def windows():
    x, w = f(1, 4, 7, 8), f(6, 4, 3, 2)
    add("Conv", x, w)
    add("Conv", x, w, f(6), kernel_shape=[3, 2], pads=[1, 0, 2, 1], strides=[2, 1])
    add("Conv", x, f(6, 2, 3, 3), group=2, dilations=[2, 1], pads=[1, 1, 1, 1])
    add("Conv", x, f(4, 1, 3, 3), group=4)
    add("Conv", f(2, 3, 9), f(4, 3, 3), strides=[2], dilations=[2])
    add("Conv", f(1, 2, 4, 5, 6), f(3, 2, 2, 3, 2), pads=[1, 0, 0, 0, 1, 1])
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"):
        add("Conv", x, w, auto_pad=auto, strides=[2, 3])
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"):
        add("MaxPool", x, kernel_shape=[3, 2], strides=[2, 1], auto_pad=auto)
        add("AveragePool", x, kernel_shape=[3, 2], strides=[2, 1], auto_pad=auto)
        add("LpPool", x, kernel_shape=[3, 2], strides=[2, 1], auto_pad=auto)
    u8 = i(1, 2, 5, 6, low=0, high=255, dtype=np.uint8)
    weights = i(4, 2, 3, 3, low=0, high=255, dtype=np.uint8)
    add("ConvInteger", u8, weights)
    add("ConvInteger", u8, weights, np.array(7, np.uint8), np.array(9, np.uint8), pads=[1, 1, 0, 1], strides=[1, 2], kernel_shape=[3, 3])
    add("ConvInteger", u8, i(4, 1, 2, 2, low=0, high=255, dtype=np.uint8), np.array(7, np.uint8), group=2, dilations=[2, 1])
    add("ConvInteger", u8, weights, np.array(7, np.uint8), auto_pad="SAME_UPPER")
    scales = scalar(.02, np.float32), scalar(.03, np.float32), scalar(.9, np.float32)

    def qlinear(w, bias=None, **attrs):
        inputs = [u8, scales[0], scalar(120, np.uint8), K(w), scales[1], scalar(110, np.uint8), scales[2], scalar(128, np.uint8)]
        add("QLinearConv", *inputs, *([] if bias is None else [K(bias)]), **attrs)
    qlinear(weights)
    qlinear(weights, i(4, dtype=np.int32, low=-900, high=900), pads=[1, 1, 0, 1], strides=[1, 2], kernel_shape=[3, 3])
    qlinear(i(4, 1, 2, 2, low=0, high=255, dtype=np.uint8), group=2, dilations=[2, 1])
    qlinear(weights, auto_pad="SAME_LOWER")
    w = f(4, 3, 3, 2)
    x = f(1, 4, 5, 6)
    add("ConvTranspose", x, w)
    add("ConvTranspose", x, w, f(3), strides=[2, 3], output_padding=[1, 2], kernel_shape=[3, 2])
    add("ConvTranspose", x, w, pads=[1, 0, 2, 1], dilations=[1, 2])
    add("ConvTranspose", x, w, group=2, strides=[2, 2])
    add("ConvTranspose", x, w, strides=[2, 2], output_shape=[12, 13])
    add("ConvTranspose", f(1, 2, 5), f(2, 3, 3), strides=[2])
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"):
        add("ConvTranspose", x, w, strides=[2, 2], auto_pad=auto)
    add("ConvTranspose", x, w, strides=[2, 3])
    x = f(1, 2, 7, 8)
    for op in ("MaxPool", "AveragePool", "LpPool"):
        add(op, x, kernel_shape=[3, 2])
        add(op, x, kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 1, 1])
        add(op, f(1, 2, 9), kernel_shape=[3], strides=[2])
    for op, ceil_since, dilations_since in (("MaxPool", 10, 10), ("AveragePool", 10, 19), ("LpPool", 18, 18)):
        for ceil in (0, 1):
            add(op, x, kernel_shape=[2, 3], strides=[3, 2], ceil_mode=ceil, since=ceil_since)
        add(op, x, kernel_shape=[2, 3], dilations=[2, 2], since=dilations_since)
    for include in (0, 1):
        add("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], count_include_pad=include)
        add("AveragePool", x, kernel_shape=[3, 2], pads=[1, 0, 1, 1], count_include_pad=include, dilations=[2, 1], since=19)
    for p in (1, 2, 3):
        add("LpPool", x, kernel_shape=[3, 2], p=p, pads=[1, 0, 1, 1])
        add("GlobalLpPool", x, p=p, numpy=lambda x, p=p: [(np.abs(x) ** p).sum((2, 3), keepdims=True) ** np.float32(1 / p)])
    add("GlobalLpPool", x, numpy=lambda x: [np.sqrt((x * x).sum((2, 3), keepdims=True))])
    add("GlobalAveragePool", x)
    add("GlobalMaxPool", x)
    for order in (0, 1):
        add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], storage_order=order, outputs=2, since=8)
    at = np.array([[[[5, 7], [13, 15]]]])
    add("MaxUnpool", f(1, 1, 2, 2), K(at), kernel_shape=[2, 2], strides=[2, 2])
    add("MaxUnpool", f(1, 1, 2, 2), K(at), k(1, 1, 5, 5), kernel_shape=[2, 2], strides=[2, 2], prefer="onnx")
    add("MaxUnpool", f(1, 1, 2, 2), K(np.array([[[[0, 2], [3, 5]]]])), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    add("MaxUnpool", f(1, 1, 2, 2), K(np.array([[[[0, 1], [4, 8]]]])), kernel_shape=[2, 2])


def local_response(x, size, alpha, beta, bias):
    """The sum spans floor((size - 1) / 2) channels before and ceil((size - 1) / 2) after."""
    squares = np.pad(x * x, [(0, 0), ((size - 1) // 2, size // 2), (0, 0), (0, 0)])
    sums = sum(squares[:, c:c + x.shape[1]] for c in range(size))
    return [x / (bias + alpha / size * sums) ** np.float32(beta)]


def group_norm(x, scale, bias, groups, epsilon=1e-5):
    """Of version 18: a scale and a bias for each group."""
    parts = x.reshape(x.shape[0], groups, -1)
    parts = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + np.float32(epsilon))
    return [(parts * scale[:, None] + bias[:, None]).reshape(x.shape)]


def norms():
    x, c = f(2, 6, 4, 5), 6
    channel = lambda: f(c, low=.5)  # noqa: E731
    add("BatchNormalization", x, channel(), channel(), channel(), channel())
    add("BatchNormalization", x, channel(), channel(), channel(), channel(), epsilon=0.01, momentum=0.5)
    add("BatchNormalization", x, channel(), channel(), channel(), channel(), spatial=1, until=8)
    add("BatchNormalization", x, channel(), channel(), channel(), channel(), training_mode=0, since=14)
    add("BatchNormalization", f(5, 6), channel(), channel(), channel(), channel())
    add("InstanceNormalization", x, channel(), channel())
    add("InstanceNormalization", x, channel(), channel(), epsilon=0.1)
    add("GroupNormalization", x, f(3), f(3), num_groups=3, until=20, numpy=lambda x, scale, bias: group_norm(x, scale, bias, 3))
    add("GroupNormalization", x, channel(), channel(), num_groups=3, epsilon=0.1, since=21)
    add("GroupNormalization", x, channel(), channel(), num_groups=2, stash_type=1, since=21)
    for axis in (1, 2, -1):
        scale = f(*x.shape[axis:])
        add("LayerNormalization", x, scale, f(*x.shape[axis:]), axis=axis)
        add("LayerNormalization", x, scale, axis=axis, epsilon=0.1, stash_type=1, outputs=3)
        add("RMSNormalization", x, scale, axis=axis)
    add("LayerNormalization", x, f(5))
    add("RMSNormalization", x, f(5), epsilon=0.1, stash_type=1)
    for size in (1, 3):
        add("LRN", x, size=size, alpha=0.5, beta=0.6, bias=1.5)
    add("LRN", x, size=4, alpha=0.5, beta=0.6, bias=1.5, numpy=lambda x: local_response(x, 4, 0.5, 0.6, 1.5))
    add("LRN", x, size=3)
    add("MeanVarianceNormalization", x)
    add("MeanVarianceNormalization", x, axes=[0, 1, 3])


def resizing():
    x = f(1, 2, 4, 5)
    empty = K(np.array([], np.float32))
    up, down = k(1, 1, 2.5, 1.5, dtype=np.float32), k(1, 1, .6, .45, dtype=np.float32)
    whole = k(1, 1, 2, 3, dtype=np.float32)
    for mode in ("nearest", "linear"):
        add("Upsample", x, scales=[1.0, 1.0, 2.0, 3.0], mode=mode, until=8)
        add("Upsample", x, whole, mode=mode, since=9, until=9)
        add("Resize", x, whole, mode=mode, until=10)
    add("Resize", x, up, until=10)
    for scales in (k(1, 1, 2, 1.8, dtype=np.float32), k(1, 1, .5, .6, dtype=np.float32)):
        for mode in ("nearest", "linear", "cubic"):
            add("Resize", x, empty, scales, mode=mode, coordinate_transformation_mode="align_corners", since=11, rtol=1e-4)
    for scales in (up, down):
        for mode in ("nearest", "linear", "cubic"):
            add("Resize", x, None, scales, mode=mode, coordinate_transformation_mode="align_corners", since=11, rtol=1e-4, prefer="onnx")
            for coordinate in ("half_pixel", "pytorch_half_pixel", "asymmetric"):
                add("Resize", x, empty, scales, mode=mode, coordinate_transformation_mode=coordinate, since=11, rtol=1e-4)
        add("Resize", x, empty, scales, mode="linear", coordinate_transformation_mode="half_pixel_symmetric", since=19, rtol=1e-4)
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            add("Resize", x, empty, scales, mode="nearest", nearest_mode=nearest, coordinate_transformation_mode="asymmetric", since=11)
        add("Resize", x, empty, scales, mode="cubic", cubic_coeff_a=-0.5, since=11, rtol=1e-4)
        add("Resize", x, empty, scales, mode="cubic", exclude_outside=1, since=11, rtol=1e-4)
    for mode in ("linear", "cubic"):
        add("Resize", x, None, down, mode=mode, antialias=1, since=18, rtol=1e-4)
        add("Resize", x, None, down, mode=mode, antialias=1, exclude_outside=1, since=18, rtol=1e-4)
    sizes = k(1, 2, 7, 3)
    for mode in ("nearest", "linear", "cubic"):
        add("Resize", x, empty, empty, sizes, mode=mode, since=11, rtol=1e-4)
    roi = k(0, 0, .2, .1, 1, 1, .9, 1.2, dtype=np.float32)
    for mode in ("nearest", "linear", "cubic"):
        add("Resize", x, roi, empty, sizes, mode=mode, coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.5, since=11, rtol=1e-4)
    add("Resize", x, None, k(2.5, .6, dtype=np.float32), axes=[3, 2], mode="linear", since=18, rtol=1e-4)
    for policy in ("stretch", "not_larger", "not_smaller"):
        add("Resize", x, None, None, k(7, 9), axes=[2, 3], keep_aspect_ratio_policy=policy, mode="nearest", since=18)
    grid = f(1, 3, 4, 2, low=-1.3, high=1.3)
    for padding in ("zeros", "border", "reflection"):
        for align in (0, 1):
            for old, new in (("bilinear", "linear"), ("nearest", "nearest"), ("bicubic", "cubic")):
                # ONNX Runtime moves the four pixels to the border, ONNX the point between them.
                prefer = "onnx" if new == "cubic" and padding == "border" else "onnxruntime"
                if prefer == "onnxruntime":  # ONNX's reference does not know the old name
                    add("GridSample", x, grid, mode=old, padding_mode=padding, align_corners=align, until=19, rtol=1e-4)
                add("GridSample", x, grid, mode=new, padding_mode=padding, align_corners=align, since=20, rtol=1e-4, prefer=prefer)
    add("GridSample", x, grid, rtol=1e-4)


def recurrent():
    steps, batch, inputs, hidden = 4, 3, 5, 2
    x = f(steps, batch, inputs)
    lengths = K(np.array([4, 2, 3], np.int32))
    for op, gates, states in (("LSTM", 4, 2), ("GRU", 3, 1), ("RNN", 1, 1)):
        for direction, ways in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            w, r = f(ways, gates * hidden, inputs), f(ways, gates * hidden, hidden)
            bias = f(ways, 2 * gates * hidden)
            start = [f(ways, batch, hidden) for _ in range(states)]
            add(op, x, w, r, hidden_size=hidden, direction=direction, outputs=1 + states, rtol=1e-4)
            add(op, x, w, r, bias, lengths, *start, hidden_size=hidden, direction=direction, outputs=1 + states, rtol=1e-4)
            add(op, x, w, r, bias, None, *start, hidden_size=hidden, direction=direction, clip=0.7, outputs=1 + states, rtol=1e-4)
        w, r = f(1, gates * hidden, inputs), f(1, gates * hidden, hidden)
        count = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
        for names, alphas, betas in ((["Relu", "Tanh", "Sigmoid"], [], []), (["HardSigmoid", "LeakyRelu", "Elu"], [0.3, 0.1, 0.7], [0.4]),
                                     (["ScaledTanh", "Affine", "Softsign"], [0.8, 0.5], [0.9, 0.1]), (["Softplus", "ThresholdedRelu", "Tanh"], [0.2], [])):
            named = names[:count]
            wants_alpha = sum(n in ("HardSigmoid", "LeakyRelu", "Elu", "ScaledTanh", "Affine", "ThresholdedRelu") for n in named)
            wants_beta = sum(n in ("HardSigmoid", "ScaledTanh", "Affine") for n in named)
            more = {} if wants_alpha == 0 else {"activation_alpha": alphas[:wants_alpha]}
            more |= {} if wants_beta == 0 else {"activation_beta": betas[:wants_beta]}
            add(op, x, w, r, hidden_size=hidden, activations=named, outputs=1 + states, rtol=1e-4, **more)
    w, r, bias = f(1, 4 * hidden, inputs), f(1, 4 * hidden, hidden), f(1, 8 * hidden)
    peepholes = f(1, 3 * hidden)
    add("LSTM", x, w, r, bias, None, None, None, peepholes, hidden_size=hidden, outputs=3, rtol=1e-4)
    add("LSTM", x, w, r, bias, None, None, None, peepholes, hidden_size=hidden, input_forget=1, outputs=3, rtol=1e-4)
    w, r, bias = f(1, 3 * hidden, inputs), f(1, 3 * hidden, hidden), f(1, 6 * hidden)
    for before in (0, 1):
        add("GRU", x, w, r, bias, hidden_size=hidden, linear_before_reset=before, outputs=2, rtol=1e-4)


def quantization():
    x = f(3, 4, low=-5, high=5)
    for zero in (np.array(7, np.uint8), np.array(-3, np.int8)):
        add("QuantizeLinear", x, scalar(.05, np.float32), K(zero))
        add("DequantizeLinear", i(3, 4, low=0, high=99, dtype=zero.dtype), scalar(.05, np.float32), K(zero))
    add("QuantizeLinear", x, scalar(.05, np.float32))
    add("DequantizeLinear", i(3, 4, low=-999, high=999, dtype=np.int32), scalar(.05, np.float32))
    for axis in (0, 1, -1):
        extent = x.shape[axis]
        scale, zero = K(f(extent, low=.02, high=.1)), K(i(extent, low=0, high=20, dtype=np.uint8))
        add("QuantizeLinear", x, scale, zero, axis=axis, since=13)
        add("DequantizeLinear", i(3, 4, low=0, high=99, dtype=np.uint8), scale, zero, axis=axis, since=13)
    add("QuantizeLinear", x, scalar(.05, np.float32), scalar(7, np.uint8), saturate=1, since=19)
    add("QuantizeLinear", x, scalar(.05, np.float32), output_dtype=TensorProto.INT8, since=21)
    add("QuantizeLinear", x, scalar(.001, np.float32), scalar(700, np.uint16), since=21)
    add("DequantizeLinear", i(3, 4, low=0, high=999, dtype=np.int16), scalar(.001, np.float32), scalar(-70, np.int16), since=21)
    add("DynamicQuantizeLinear", x, outputs=3)


def signals():
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for periodic in (0, 1):
            add(op, scalar(9), periodic=periodic)
        add(op, scalar(8), output_datatype=TensorProto.DOUBLE)
    x, z = f(2, 8, 1), f(2, 7, 2)
    for inverse in (0, 1):
        add("DFT", z, axis=1, inverse=inverse, until=19, rtol=1e-4)
        add("DFT", z, None, scalar(1), inverse=inverse, since=20, rtol=1e-4)
    for onesided in (0, 1):
        add("DFT", x, axis=1, onesided=onesided, until=19, rtol=1e-4)
        add("DFT", x, None, scalar(1), onesided=onesided, since=20, rtol=1e-4)
    add("DFT", f(2, 3, 8, 1), scalar(5), axis=2, until=19, rtol=1e-4)
    add("DFT", f(2, 3, 8, 1), scalar(11), scalar(-2), since=20, rtol=1e-4)
    signal = f(2, 32, 1)
    window = K(np.hanning(8).astype(np.float32))
    for onesided in (0, 1):
        add("STFT", signal, scalar(4), window, scalar(8), onesided=onesided, rtol=1e-4)
        add("STFT", signal, scalar(4), None, scalar(8), onesided=onesided, rtol=1e-4)
    add("STFT", signal, scalar(8), window, rtol=1e-4)
    mel = [scalar(v) for v in (6, 16, 8000)] + [scalar(v, np.float32) for v in (0.0, 4000.0)]
    add("MelWeightMatrix", *mel)
    add("MelWeightMatrix", *mel, output_datatype=TensorProto.DOUBLE)


def losses():
    scores, target = f(4, 5, 3), i(4, 3, low=0, high=5)
    weights = f(5, low=.1)
    for reduction in ("none", "sum", "mean"):
        for more in ([], [weights]):
            add("NegativeLogLikelihoodLoss", scores, target, *more, reduction=reduction)
            add("SoftmaxCrossEntropyLoss", scores, target, *more, reduction=reduction)
            add("NegativeLogLikelihoodLoss", scores, target, *more, reduction=reduction, ignore_index=2)
            add("SoftmaxCrossEntropyLoss", scores, target, *more, reduction=reduction, ignore_index=2, outputs=2)
    text = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int32)
    pool = {"ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6], "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]}
    for mode in ("TF", "IDF", "TFIDF"):
        for shortest, longest, skips in ((1, 1, 0), (1, 2, 1), (2, 2, 5)):
            add("TfIdfVectorizer", text, mode=mode, min_gram_length=shortest, max_gram_length=longest, max_skip_count=skips, **pool)
    add("TfIdfVectorizer", text, mode="TFIDF", min_gram_length=1, max_gram_length=2, max_skip_count=1, weights=[.1, .2, .3, .4, .5, .6, .7], **pool)


for group in (elementwise, shapes, indices, reductions, products, windows, norms, resizing, recurrent, quantization, signals, losses):
    group()


def model_of(cases, opset):
    """A model with the cases side by side; inputs are `x<case>_<input>`, outputs `y<case>_<output>`. Also the arrays to feed."""
    nodes, inputs, outputs, initializers, fed = [], [], [], [], {}
    for number, case in enumerate(cases):
        names = []
        for index, value in enumerate(case.inputs):
            name = "" if value is None else f"x{number}_{index}"
            names.append(name)
            if isinstance(value, K):
                initializers.append(numpy_helper.from_array(value.array, name))
            elif value is not None:
                inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
                fed[name] = value
        results = [f"y{number}_{index}" for index in range(case.outputs)]
        outputs += [helper.make_empty_tensor_value_info(name) for name in results]
        nodes.append(helper.make_node(case.op, names, results, name=f"{case.op} {number}", **case.attrs))
    graph = helper.make_graph(nodes, "cases", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), fed

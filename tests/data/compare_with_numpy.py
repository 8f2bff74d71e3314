#!/usr/bin/env python3
"""Compares an attention output with softmax(Q K^T / sqrt(d)) V computed by NumPy in fp64.

    compare_with_numpy.py q.npy k.npy v.npy out.npy BOUND

All files are [batch, seqlen, heads, dim]. Exits 1 if the largest error exceeds BOUND or is NaN.
"""
import sys

import numpy as np


def main():
    q, k, v, out = (np.load(path).astype(np.float64) for path in sys.argv[1:5])
    bound = float(sys.argv[5])
    group_size = q.shape[2] // k.shape[2]
    k, v = (np.repeat(x, group_size, axis=2) for x in (k, v))
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    expected = np.einsum("bhqk,bkhd->bqhd", weights, v)
    error = np.abs(out - expected).max() if out.shape == expected.shape else np.nan
    print(f"NumPy fp64: max error {error:.3g}, bound {bound:.3g}")
    return 0 if error <= bound else 1


if __name__ == "__main__":
    sys.exit(main())

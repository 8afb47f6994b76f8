"""The small language model in PyTorch: a decoder with RoPE, grouped KV heads and RMSNorm."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """The sizes of the model; its KV cache takes 2 * 4 * 2 * 32 numbers a token, 1 KiB."""

    vocab: int = 1024
    n_layers: int = 4
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 32
    width: int = 128
    inner: int = 352
    context_len: int = 512
    rope_base: float = 10_000.0


class RMSNorm(nn.Module):
    """Scale each vector to a mean square of 1, then each channel by a learnt gain."""

    def __init__(self, width: int) -> None:
        """`width` is the number of channels."""
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Norm the last axis."""
        return functional.rms_norm(x, x.shape[-1:], self.gain, 1e-6)


class Layer(nn.Module):
    """Attention, then a gated two-matrix network (SwiGLU), each added to its input."""

    def __init__(self, shape: Shape) -> None:
        """`shape` gives every size."""
        super().__init__()
        self.shape = shape
        queries, keys = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
        self.norm_attention = RMSNorm(shape.width)
        self.w_q = nn.Linear(shape.width, queries, bias=False)
        self.w_k = nn.Linear(shape.width, keys, bias=False)
        self.w_v = nn.Linear(shape.width, keys, bias=False)
        self.w_o = nn.Linear(queries, shape.width, bias=False)
        self.norm_network = RMSNorm(shape.width)
        self.w_gate = nn.Linear(shape.width, shape.inner, bias=False)
        self.w_up = nn.Linear(shape.width, shape.inner, bias=False)
        self.w_down = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return x (batch, length, width) after this layer."""
        batch, length, _ = x.shape
        y = self.norm_attention(x)

        def heads(projected: Tensor, count: int) -> Tensor:
            return projected.view(batch, length, count, -1).transpose(1, 2)

        q = rotate(heads(self.w_q(y), self.shape.n_heads), cos, sin)
        k = rotate(heads(self.w_k(y), self.shape.n_kv_heads), cos, sin)
        v = heads(self.w_v(y), self.shape.n_kv_heads)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.w_o(mixed.transpose(1, 2).reshape(batch, length, -1))
        y = self.norm_network(x)
        return x + self.w_down(functional.silu(self.w_gate(y)) * self.w_up(y))


class SmallLM(nn.Module):
    """Token ids (batch, length) in, logits (batch, length, vocab) out; embeddings are tied."""

    def __init__(self, shape: Shape) -> None:
        """Draw the weights; PyTorch's seed decides which."""
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.n_layers))
        self.norm_out = RMSNorm(shape.width)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                deep = name.endswith(("w_o.weight", "w_down.weight"))
                # 2 additions a layer: their sum keeps the variance of one
                scale = (2 * shape.n_layers) ** -0.5 if deep else 1.0
                fan_in = scale * weight.shape[1] ** -0.5
                nn.init.normal_(weight, std=0.02 if name.startswith("embedding") else fan_in)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits after each token."""
        cos, sin = angles(self.shape, tokens.shape[1])
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return functional.linear(self.norm_out(x), self.embedding.weight)


def angles(shape: Shape, length: int) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of position x frequency, (length, head_dim / 2) each.

    Source: Su et al., RoFormer (arXiv 2104.09864), section 3.2.
    """
    half = shape.head_dim // 2
    frequencies = shape.rope_base ** (-torch.arange(half) / half)
    turned = torch.arange(length)[:, None] * frequencies
    return turned.cos(), turned.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (channel i, channel i + head_dim / 2) of each head by their angle."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

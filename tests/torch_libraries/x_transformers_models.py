# x-transformers: decoders with several options, an encoder-decoder, an encoder of images; einops layers.
import torch
from einops.layers.torch import EinMix, Rearrange, Reduce
from same import fill, gradients, numbers, show
from torch import nn
from x_transformers import (
    AutoregressiveWrapper,
    Decoder,
    Encoder,
    TransformerWrapper,
    ViTransformerWrapper,
    XTransformer,
)

tokens = (torch.arange(24).reshape(2, 12) * 7) % 59 + 1
OPTIONS = {
    "plain": {}, "rotary": dict(rotary_pos_emb=True), "alibi": dict(alibi_pos_bias=True, alibi_num_heads=2),
    "t5": dict(rel_pos_bias=True), "rms": dict(use_rmsnorm=True, ff_glu=True, ff_swish=True),
    "groups": dict(attn_kv_heads=2), "scale": dict(use_scalenorm=True, attn_qk_norm=True),
    "sandwich": dict(sandwich_norm=True), "memory": dict(attn_num_mem_kv=2),
    "talking": dict(attn_pre_talking_heads=True),
    "gate": dict(gate_residual=True), "shift": dict(shift_tokens=1), "macaron": dict(macaron=True),
}  # fmt: skip
for name, options in OPTIONS.items():
    net = fill(
        TransformerWrapper(num_tokens=61, max_seq_len=16, attn_layers=Decoder(dim=32, depth=2, heads=4, **options))
    )
    model = AutoregressiveWrapper(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        loss = model(tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    show(name, *losses, gradients(model))
    if name in ("plain", "rotary"):
        print(name, model.generate(tokens[:, :4], 6, temperature=0.0, cache_kv=name == "rotary").tolist())
model = fill(XTransformer(dim=32, enc_num_tokens=61, enc_depth=1, enc_heads=2, enc_max_seq_len=16, dec_num_tokens=61,
                          dec_depth=1, dec_heads=2, dec_max_seq_len=16))  # fmt: skip
loss = model(tokens, tokens, mask=torch.ones_like(tokens).bool())
loss.backward()
show("pair", loss.detach(), gradients(model))
model = fill(
    ViTransformerWrapper(image_size=16, patch_size=4, num_classes=3, attn_layers=Encoder(dim=32, depth=2, heads=2))
)
loss = nn.functional.cross_entropy(model(numbers(2, 3, 16, 16)), torch.tensor([0, 2]))
loss.backward()
show("image", loss.detach(), gradients(model))
net = fill(nn.Sequential(
    nn.Conv2d(3, 4, 3, padding=1), Rearrange("b c (h s) (w t) -> b (c s t) h w", s=2, t=2),
    Reduce("b c h w -> b h c", "mean"),
    EinMix("b h c -> b h d", weight_shape="c d", bias_shape="d", c=16, d=5),
))  # fmt: skip
out = net(numbers(2, 3, 8, 8))
out.square().mean().backward()
show("einops", out.detach().abs().mean(), gradients(net))

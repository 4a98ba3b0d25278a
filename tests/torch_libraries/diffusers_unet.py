# diffusers: a step of training of UNets with several schedulers' noise, sampling, an autoencoder, a transformer.
import torch
from same import fill, gradients, numbers, show

import diffusers as d
from diffusers.training_utils import EMAModel

x, noise, when = numbers(2, 3, 16, 16), numbers(2, 3, 16, 16, seed=5), torch.tensor([3, 17])
unet = fill(d.UNet2DModel(
    sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=8,
))  # fmt: skip
schedule = d.DDPMScheduler(num_train_timesteps=50)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3)
average = EMAModel(unet.parameters(), decay=0.9)
for _ in range(3):
    loss = torch.nn.functional.mse_loss(unet(schedule.add_noise(x, noise, when), when).sample, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.step(unet.parameters())
    show("unet", loss.detach(), gradients(unet))
conditional = fill(d.UNet2DConditionModel(
    sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    cross_attention_dim=8, attention_head_dim=8,
))  # fmt: skip
loss = torch.nn.functional.mse_loss(conditional(x, when, numbers(2, 5, 8)).sample, noise)
loss.backward()
show("conditional", loss.detach(), gradients(conditional))
with torch.no_grad():
    for kind in (d.DDIMScheduler, d.EulerDiscreteScheduler, d.DPMSolverMultistepScheduler, d.PNDMScheduler,
                 d.LMSDiscreteScheduler, d.HeunDiscreteScheduler, d.FlowMatchEulerDiscreteScheduler):  # fmt: skip
        sampler = kind()
        sampler.set_timesteps(4)
        y = noise * getattr(sampler, "init_noise_sigma", 1.0)
        for t in sampler.timesteps:
            given = sampler.scale_model_input(y, t) if hasattr(sampler, "scale_model_input") else y
            y = sampler.step(unet(given, t.float()).sample, t, y).prev_sample
        show(kind.__name__, y.abs().mean(), y.std())
coder = fill(d.AutoencoderKL(block_out_channels=(16,), latent_channels=4, norm_num_groups=4))
code = coder.encode(x).latent_dist
loss = (coder.decode(code.mode()).sample - x).square().mean() + 1e-3 * code.kl().mean()
loss.backward()
show("autoencoder", loss.detach(), gradients(coder))
former = fill(d.DiTTransformer2DModel(
    num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=1, sample_size=8, patch_size=2,
    num_embeds_ada_norm=50, norm_num_groups=4,
))  # fmt: skip
former.eval()  # in training it drops classes at random
out = former(numbers(2, 4, 8, 8), timestep=when, class_labels=torch.tensor([1, 2])).sample
out.square().mean().backward()
show("dit", out.detach().abs().mean(), gradients(former))

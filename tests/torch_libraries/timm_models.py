# timm: models of different kinds, steps of training with timm's optimizer, schedule, loss and average of weights.  In
# float64: some of the networks amplify roundings a thousandfold.
import torch
from same import fill, gradients, numbers, show

import timm
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, accuracy

NAMES = {
    "resnet10t": {}, "test_efficientnet": {}, "test_vit": {}, "test_convnext": {}, "test_resnet": {},
    "test_byobnet": {}, "mobilenetv3_small_050": {}, "mixer_s32_224": {"img_size": 64},
    "ghostnet_050": {}, "regnetx_002": {}, "levit_128s": {"img_size": 64}, "poolformer_s12": {},
    "pit_ti_224": {"img_size": 64},
}  # fmt: skip
for name, options in NAMES.items():
    model = fill(timm.create_model(name, num_classes=5, drop_rate=0.0, **options)).double().train()
    size = options.get("img_size", 64)
    x, y = numbers(4, 3, size, size).double(), torch.tensor([0, 3, 1, 4])
    optimizer = create_optimizer_v2(model, "adamw", lr=1e-4, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=10, warmup_t=2, warmup_lr_init=1e-6)
    average = ModelEmaV3(model, decay=0.9)
    losses = []
    for step in range(2):
        out = model(x)
        loss = LabelSmoothingCrossEntropy(0.1)(out[0] if isinstance(out, tuple) else out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step(step + 1)
        average.update(model)
        losses.append(loss.detach())
    model.eval()
    with torch.no_grad():
        out = model(x)
    features = model.forward_features(x)
    show(name, *losses, gradients(model), out.abs().mean(), features.abs().mean())
    show(name, accuracy(out, y)[0], sum(p.numel() for p in model.parameters()))

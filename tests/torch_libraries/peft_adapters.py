# peft: LoRA, IA3, prefix, prompt and other adapters of a small Llama and GPT-2: training, merging, saving, loading.
import tempfile

import torch
import transformers as t
from same import fill, gradients, show

import peft

tokens = (torch.arange(20).reshape(2, 10) * 7) % 57 + 3


def base():
    torch.manual_seed(0)
    return fill(
        t.LlamaForCausalLM(
            t.LlamaConfig(
                vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2,
            )
        )
    )  # fmt: skip


targets = ["q_proj", "v_proj"]
CONFIGS = {
    "lora": peft.LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, target_modules=targets),
    "rslora": peft.LoraConfig(task_type="CAUSAL_LM", r=4, use_rslora=True, target_modules="all-linear"),
    "dora": peft.LoraConfig(task_type="CAUSAL_LM", r=4, use_dora=True, target_modules=targets),
    "ia3": peft.IA3Config(
        task_type="CAUSAL_LM", target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]
    ),
    "loha": peft.LoHaConfig(task_type="CAUSAL_LM", r=2, target_modules=targets),
    "lokr": peft.LoKrConfig(task_type="CAUSAL_LM", r=2, target_modules=targets),
    "adalora": peft.AdaLoraConfig(task_type="CAUSAL_LM", init_r=4, total_step=10, target_modules=targets),
    "vera": peft.VeraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"]),
    "prompt": peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3),
    "prefix": peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3),
    "ln": peft.LNTuningConfig(task_type="CAUSAL_LM", target_modules=["input_layernorm"]),
}
for name, config in CONFIGS.items():
    model = peft.get_peft_model(base(), config)
    with torch.no_grad():  # the adapters too
        fill(torch.nn.ParameterDict({n.replace(".", "_"): p for n, p in model.named_parameters() if p.requires_grad}))
        if name == "vera":
            for n, b in model.named_buffers():
                if "vera" in n:
                    b.fill_(0.01)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    losses = []
    for _ in range(3):
        loss = model(input_ids=tokens, labels=tokens, attention_mask=torch.ones_like(tokens)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    trained, every = model.get_nb_trainable_parameters()
    show(name, *losses, gradients(model), trained, every)
    model.eval()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        want = model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits
        model.save_pretrained(folder)
        again = peft.PeftModel.from_pretrained(base(), folder).eval()
        if name == "vera":
            for n, b in again.named_buffers():
                if "vera" in n:
                    b.fill_(0.01)
        found = again(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits
        show(f"{name} loaded", want.abs().mean(), float((found - want).abs().max() < 1e-4))
        if name in ("lora", "rslora", "dora", "ia3", "loha", "lokr"):
            merged = model.merge_and_unload()
            show(f"{name} merged", float((merged(input_ids=tokens).logits - want).abs().max() < 1e-4))

# Ten families of transformers from a configuration: forward, loss, backward, a step, generate.
import torch
import same  # noqa: F401  first: see there
import transformers as t
from same import fill, gradients, show

SMALL = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
GROUPED = SMALL | dict(
    num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2
)
NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
WRITERS = {
    "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED)),
    "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**GROUPED, sliding_window=4)),
    "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**GROUPED)),
    "gemma": lambda: t.GemmaForCausalLM(t.GemmaConfig(**GROUPED, head_dim=8)),
    "phi": lambda: t.PhiForCausalLM(t.PhiConfig(**GROUPED)),
    "gpt2": lambda: t.GPT2LMHeadModel(
        t.GPT2Config(
            vocab_size=61, n_embd=32, n_layer=2, n_head=4, n_positions=64,
            embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, bos_token_id=1, eos_token_id=2,
        )
    ),
    "gpt_neox": lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**SMALL, max_position_embeddings=64)),
    "opt": lambda: t.OPTForCausalLM(
        t.OPTConfig(
            vocab_size=61, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
            word_embed_proj_dim=32, dropout=0.0, max_position_embeddings=64,
        )
    ),
    "t5": lambda: t.T5ForConditionalGeneration(
        t.T5Config(
            vocab_size=61, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0,
            decoder_start_token_id=0,
        )
    ),
}  # fmt: skip
READERS = {
    "bert": lambda: t.BertForMaskedLM(t.BertConfig(**SMALL, **NO_DROPOUT, max_position_embeddings=64)),
    "roberta": lambda: t.RobertaForSequenceClassification(
        t.RobertaConfig(**SMALL, **NO_DROPOUT, max_position_embeddings=64, num_labels=3)
    ),
    "distilbert": lambda: t.DistilBertForTokenClassification(
        t.DistilBertConfig(vocab_size=61, dim=32, hidden_dim=48, n_layers=2, n_heads=4, dropout=0.0,
                           attention_dropout=0.0, max_position_embeddings=64, num_labels=5)
    ),
    "vit": lambda: t.ViTForImageClassification(
        t.ViTConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=16,
                    patch_size=4, num_labels=3, **NO_DROPOUT)
    ),
}  # fmt: skip
tokens = (torch.arange(20).reshape(2, 10) * 7) % 57 + 3
for name, make in (WRITERS | READERS).items():
    torch.manual_seed(0)
    model = fill(make()).train()
    if name == "vit":
        from same import numbers

        given = {"pixel_values": numbers(2, 3, 16, 16), "labels": torch.tensor([0, 2])}
    else:
        labels = {"roberta": torch.tensor([0, 2]), "distilbert": tokens % 5}.get(name, tokens)
        given = {"input_ids": tokens, "labels": labels, "attention_mask": (tokens != 10).long()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        loss = model(**given).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    show(name, *losses, gradients(model))
    if name in WRITERS:
        model.eval()
        fixed = dict(max_new_tokens=8, eos_token_id=None, pad_token_id=0)
        print(name, model.generate(tokens[:, :5], do_sample=False, **fixed).tolist())
        if name in ("llama", "t5"):
            print(name, model.generate(tokens[:, :5], do_sample=False, num_beams=3, **fixed).tolist())

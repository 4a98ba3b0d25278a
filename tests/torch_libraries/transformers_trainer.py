# transformers.Trainer on the processor: training, evaluation, a checkpoint, and its continuation.
import tempfile

import torch
import same  # noqa: F401  first: see there
import transformers as t
from same import fill, show
from torch.utils.data import Dataset

t.logging.set_verbosity_error()


class Sums(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        ids = (torch.arange(6) * (i + 3)) % 29 + 1
        return {"input_ids": ids, "labels": ids}


config = t.GPT2Config(
    vocab_size=31, n_embd=16, n_layer=1, n_head=2, n_positions=16, embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0
)
with tempfile.TemporaryDirectory() as folder:
    options = dict(
        output_dir=folder, per_device_train_batch_size=4, learning_rate=1e-2, logging_steps=2, report_to=[],
        save_steps=4, use_cpu=True, disable_tqdm=True, log_level="error", max_grad_norm=1.0, warmup_steps=2,
        lr_scheduler_type="cosine",
    )  # fmt: skip

    class Ordered(t.Trainer):
        def _get_train_sampler(self, *args):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    def trainer(steps):
        model = fill(t.GPT2LMHeadModel(config))
        made = Ordered(
            model, t.TrainingArguments(max_steps=steps, **options), train_dataset=Sums(), eval_dataset=Sums()
        )
        made.remove_callback(t.PrinterCallback)
        return made

    first = trainer(8)
    first.train()
    for row in first.state.log_history:
        if "loss" in row:
            show("step", row["step"], row["loss"], row["grad_norm"], row["learning_rate"])
    show("evaluation", first.evaluate()["eval_loss"])
    again = trainer(8)
    again.train(resume_from_checkpoint=f"{folder}/checkpoint-4")
    show("continued", again.evaluate()["eval_loss"])
    first.save_model(f"{folder}/model")
    loaded = t.GPT2LMHeadModel.from_pretrained(f"{folder}/model")
    print("loaded", all(torch.equal(a, b) for a, b in zip(first.model.parameters(), loaded.parameters())))

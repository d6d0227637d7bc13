"""Hugging Face Trainer: a language model of a few numbers, on a CPU.

hf_trainer.py FOLDER [resume] [nan] [push] [evaluate] [half]
"""

import logging
import sys

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

folder, options = sys.argv[1], sys.argv[2:]
transformers.logging.set_verbosity_info()
logging.basicConfig(level=logging.INFO)
transformers.set_seed(1)
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=16, n_positions=8, n_embd=4, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0)
)
rows = [{"input_ids": (ids := torch.randint(0, 16, (8,))), "labels": ids} for _ in range(48)]
arguments = TrainingArguments(
    output_dir=folder, max_steps=12 if "half" in options else 24, per_device_train_batch_size=2, logging_steps=2,
    save_steps=4, save_total_limit=2,
    learning_rate=float("inf") if "nan" in options else 1e-3, logging_nan_inf_filter="filter" in options,
    use_cpu=True, report_to=[], eval_strategy="steps" if "evaluate" in options else "no", eval_steps=8,
)  # fmt: skip
callbacks = []
if "push" in options:  # the client lies in PYTHONPATH; its address is in the environment
    from recovery_desk_client import HuggingFaceCallback

    callbacks = [HuggingFaceCallback()]
trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:4], callbacks=callbacks)
trainer.train(resume_from_checkpoint="resume" in options)

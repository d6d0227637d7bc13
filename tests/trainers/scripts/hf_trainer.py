"""Hugging Face Trainer: a language model of a few numbers, on a CPU; on DeepSpeed (ZeRO 3) with two processes.

hf_trainer.py FOLDER [resume] [nan] [push] [evaluate] [half] [deepspeed] [die]
"""

import logging
import os
import signal
import sys

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

folder, options = sys.argv[1], sys.argv[2:]
on = {"use_cpu": True}
if "deepspeed" in options:
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled, and gloo does as well
    on = {
        "deepspeed": {
            "train_micro_batch_size_per_gpu": "auto", "steps_per_print": 2, "zero_optimization": {"stage": 3},
            "zero_allow_untested_optimizer": True,
        }
    }  # fmt: skip
if "die" in options:  # in the second save, when every rank has written its shards and the last file is still to come
    write = transformers.TrainerState.save_to_json

    def write_or_die(state, path):
        if state.global_step == 8:
            os.kill(os.getpid(), signal.SIGKILL)
        write(state, path)

    transformers.TrainerState.save_to_json = write_or_die
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
    report_to=[], **on, eval_strategy="steps" if "evaluate" in options else "no", eval_steps=8,
)  # fmt: skip
callbacks = []
if "push" in options:  # the client lies in PYTHONPATH; its address is in the environment
    from recovery_desk_client import HuggingFaceCallback

    callbacks = [HuggingFaceCallback()]
trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:4], callbacks=callbacks)
trainer.train(resume_from_checkpoint="resume" in options)

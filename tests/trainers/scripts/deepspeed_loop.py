"""DeepSpeed's engine with ZeRO 1, two processes, on CPUs. deepspeed_loop.py FOLDER [die] [resume]"""

import os
import signal
import sys

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed
import torch

folder, options = sys.argv[1], sys.argv[2:]
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled, and gloo does as well
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
deepspeed.init_distributed(dist_backend="gloo")
engine, *_ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 2, "steps_per_print": 2, "log_level": "info",
        "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
    },
)  # fmt: skip
if "resume" in options:
    engine.load_checkpoint(folder)
if "die" in options:  # in the second save, when the model is written and the shards of its optimizer are still to come
    write = engine._save_zero_checkpoint

    def write_or_die(*arguments):
        if engine.global_steps == 8:
            os.kill(os.getpid(), signal.SIGKILL)
        write(*arguments)

    engine._save_zero_checkpoint = write_or_die
while engine.global_steps < 12:
    loss = engine(torch.rand(2, 4)).square().mean()
    engine.backward(loss)
    engine.step()
    if engine.global_steps % 4 == 0:
        engine.save_checkpoint(folder)
torch.distributed.destroy_process_group()

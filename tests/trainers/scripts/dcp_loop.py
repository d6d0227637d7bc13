"""A loop of one's own that saves with torch.distributed.checkpoint, two processes. dcp_loop.py FOLDER [resume]"""

import os
import shutil
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

folder, options = Path(sys.argv[1]), sys.argv[2:]
dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
first = 1
found = sorted(int(each.name.removeprefix("step-")) for each in folder.glob("step-*") if (each / ".metadata").exists())
if "resume" in options and found:
    print(f"Loading the checkpoint from {folder}/step-{found[-1]}.", flush=True)
    weights, state = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=str(folder / f"step-{found[-1]}"))
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    first = found[-1] + 1
if "die" in options:  # in the second save, when every rank has written its shards and the metadata is still to come
    saves = []
    finish = dcp.FileSystemWriter.finish

    def finish_or_die(writer, metadata, results):
        saves.append(writer)
        if len(saves) == 2:
            os.kill(0, signal.SIGKILL)
        return finish(writer, metadata, results)

    dcp.FileSystemWriter.finish = finish_or_die
for step in range(first, 13):
    loss = model(torch.rand(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(f"step {step}: loss {loss.item():.4f}", flush=True)
    if step % 4 == 0:
        weights, state = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": state}, checkpoint_id=str(folder / f"step-{step}"))
        if dist.get_rank() == 0:
            print(f"saved checkpoint at step {step}", flush=True)
            if step > 8:
                shutil.rmtree(folder / f"step-{step - 8}", ignore_errors=True)
dist.destroy_process_group()

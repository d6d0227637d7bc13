"""Orbax's CheckpointManager, which MaxText saves with, on a CPU. orbax_manager.py FOLDER [resume]"""

import logging
import sys

import jax.numpy as jnp
import orbax.checkpoint as ocp

folder, options = sys.argv[1], sys.argv[2:]
logging.basicConfig(level=logging.INFO, format="%(message)s")
manager = ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=4))
state, first = {"weights": jnp.ones((4, 4)), "step": jnp.array(0)}, 0
if "resume" in options and manager.latest_step() is not None:
    first = manager.latest_step()
    state = manager.restore(first, args=ocp.args.StandardRestore(state))
for step in range(first + 1, 13):
    state = {"weights": state["weights"] * 0.9, "step": jnp.array(step)}
    print(f"completed step: {step}, seconds: 0.010, loss: {float(state['weights'].sum()):.3f}", flush=True)
    manager.save(step, args=ocp.args.StandardSave(state))
manager.wait_until_finished()

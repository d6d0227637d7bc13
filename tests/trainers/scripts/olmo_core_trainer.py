"""OLMo-core's trainer with FSDP, two processes, on CPUs. olmo_core_trainer.py FOLDER [die] [resume]"""

import os
import signal
import sys

import numpy as np
import olmo_core.train.checkpoint
from olmo_core.config import DType
from olmo_core.data import NumpyDataLoaderConfig, NumpyFSLDatasetConfig, TokenizerConfig
from olmo_core.distributed.parallel import DataParallelType
from olmo_core.nn.transformer import TransformerConfig
from olmo_core.optim import LionConfig
from olmo_core.train import Duration, TrainerConfig, prepare_training_environment, teardown_training_environment
from olmo_core.train.callbacks import CheckpointerCallback, ConsoleLoggerCallback
from olmo_core.train.train_module import TransformerDataParallelConfig, TransformerTrainModuleConfig

folder, options = sys.argv[1], sys.argv[2:]


def die_in_the_save_of_step_8() -> None:
    """When every rank has written its shards, and the folder has its temporary name."""
    write = olmo_core.train.checkpoint.save_state_dict

    def write_or_die(folder, *arguments, **options):
        write(folder, *arguments, **options)
        if "step8" in str(folder):
            os.kill(os.getpid(), signal.SIGKILL)

    olmo_core.train.checkpoint.save_state_dict = write_or_die


def main() -> None:
    if "die" in options:
        die_in_the_save_of_step_8()
    words = TokenizerConfig(vocab_size=16, eos_token_id=0, pad_token_id=1)
    tokens = f"{folder}-tokens.npy"
    np.random.default_rng(1).integers(2, 16, 8192).astype(np.uint16).tofile(tokens)
    model = TransformerConfig.llama_like(
        d_model=8, vocab_size=16, n_layers=1, n_heads=1, hidden_size_multiple_of=8
    ).build(init_device="cpu")
    module = TransformerTrainModuleConfig(
        rank_microbatch_size=16, max_sequence_length=8, optim=LionConfig(lr=1e-3),
        dp_config=TransformerDataParallelConfig(name=DataParallelType.fsdp, param_dtype=DType.float32),
    ).build(model)  # fmt: skip
    dataset = NumpyFSLDatasetConfig(
        paths=[tokens], sequence_length=8, tokenizer=words, work_dir=f"{folder}-work"
    ).build()
    loader = NumpyDataLoaderConfig(global_batch_size=32, seed=1, work_dir=f"{folder}-work").build(
        dataset, dp_process_group=module.dp_process_group
    )
    saves = CheckpointerCallback(save_interval=4, save_async=False, pre_train_checkpoint=False, max_checkpoints=1)
    TrainerConfig(
        save_folder=folder, max_duration=Duration.steps(12), metrics_collect_interval=2, cancel_check_interval=1,
        save_overwrite=True,
        callbacks={"checkpointer": saves, "console_logger": ConsoleLoggerCallback(log_interval=2)},
    ).build(module, loader).fit()  # fmt: skip


if __name__ == "__main__":
    prepare_training_environment(seed=1, backend="gloo")
    main()
    teardown_training_environment()

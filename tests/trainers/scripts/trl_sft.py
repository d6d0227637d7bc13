"""TRL's SFTTrainer with a tokenizer of sixteen words, on a CPU. trl_sft.py FOLDER [resume]"""

import sys

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

folder, options = sys.argv[1], sys.argv[2:]
set_seed(1)
words = ["<pad>", "<eos>", *(f"w{number}" for number in range(14))]
plain = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<pad>"))
plain.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>")
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=16, n_positions=16, n_embd=4, n_layer=1, n_head=1, bos_token_id=1, eos_token_id=1)
)
rows = Dataset.from_list([{"text": " ".join(f"w{(first + step) % 14}" for step in range(8))} for first in range(48)])
arguments = SFTConfig(
    output_dir=folder, max_steps=12, per_device_train_batch_size=2, logging_steps=2, save_steps=4, save_total_limit=2,
    max_length=16, use_cpu=True, bf16=False, report_to=[],
)  # fmt: skip
SFTTrainer(model=model, args=arguments, train_dataset=rows, processing_class=tokenizer).train(
    resume_from_checkpoint="resume" in options
)

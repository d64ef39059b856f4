# mechanism: texts that are joined and cut into blocks of one length hold equally many targets
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, default_data_collator


def group_texts(examples, block_size=1024):
    joined = {key: sum(examples[key], []) for key in examples}
    total = len(joined["input_ids"]) // block_size * block_size
    cut = {key: [t[i : i + block_size] for i in range(0, total, block_size)] for key, t in joined.items()}
    cut["labels"] = cut["input_ids"].copy()
    return cut


def train(optimizer, accum):
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    data = load_dataset("wikitext")["train"].map(group_texts, batched=True)
    loader = DataLoader(data, batch_size=4, collate_fn=default_data_collator, drop_last=True)
    for i, batch in enumerate(loader):
        (model(**batch).loss / accum).backward()
        if (i + 1) % accum == 0:  # expect: ACC304
            optimizer.step()
            optimizer.zero_grad()

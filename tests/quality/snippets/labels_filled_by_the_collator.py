# mechanism: the collate function of the library fills labels with -100
import torch
from tqdm import tqdm
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq


def train(data, tok, args):
    model = AutoModelForCausalLM.from_pretrained(args.name)
    opt = torch.optim.AdamW(model.parameters())
    dl = DataLoader(data, batch_size=4, collate_fn=DataCollatorForSeq2Seq(tok))
    pbar = tqdm(dl, total=len(dl))
    for step, batch in enumerate(pbar):
        batch = {k: v.cuda() for k, v in batch.items()}
        loss = model(**batch).loss
        loss = loss / args.gradient_accumulation_steps
        loss.backward()  # expect: ACC101, ACC107
        if step % args.gradient_accumulation_steps == 0 or step == len(dl) - 1:  # expect: ACC305
            opt.step()
            opt.zero_grad()

# mechanism: Accelerate syncs at the loader's end, backward still divides by gradient_accumulation_steps
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader


def main(args, net, dataset):
    accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for epoch in range(args.epochs):
        for batch in loader:
            with accelerator.accumulate(net):
                noise = torch.randn_like(batch)
                loss = F.mse_loss(net(batch + noise), noise)
                accelerator.backward(loss)  # expect: ACC107
                optimizer.step()
                optimizer.zero_grad()

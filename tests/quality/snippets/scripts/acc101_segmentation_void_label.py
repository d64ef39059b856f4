# mechanism: semantic segmentation with a void label of 255; equal image sizes do not make the valid pixels equal
import torch
import torch.nn as nn
from omegaconf import OmegaConf


def run(model, train_loader, config_path):
    cfg = OmegaConf.load(config_path)
    criterion = nn.CrossEntropyLoss(ignore_index=255)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.optim.lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, cfg.optim.total)
    accum = cfg.optim.accumulate
    for epoch in range(cfg.epochs):
        model.train()
        optimizer.zero_grad()
        for it, sample in enumerate(train_loader, start=1):
            out = model(sample["image"].cuda(non_blocking=True))
            loss = criterion(out["out"], sample["label"].cuda().long())
            if cfg.get("aux", False):
                loss = loss + 0.4 * criterion(out["aux"], sample["label"].cuda().long())
            loss = loss / accum
            loss.backward()  # expect: ACC101
            if it % accum == 0:  # expect: ACC304
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
